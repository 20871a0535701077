from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from frontend.app import create_app
from frontend.health import Heartbeat
from frontend.settings import Settings
from preprocess.errors import DeadlineExceeded, InternalError, Overloaded
from tests.frontend.fakes import Call, FakeEnsemble, FakeTriton
from tests.frontend.running import NOUL, assert_documented, client_of, until_ready

# Short times, in the proportions of the defaults.


def quick() -> Settings:
    return Settings(health_interval_ms=100, health_timeout_ms=200)


@pytest.fixture
async def fast(triton: FakeTriton) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(create_app(quick(), triton)) as client:
        await until_ready(client)
        yield client


def test_the_defaults_notice_a_fault_within_five_seconds() -> None:
    settings = Settings()
    assert settings.health_interval_ms + settings.health_timeout_ms < 5_000


@pytest.mark.parametrize("path", ["/health", "/healthz"])
async def test_reports(client: httpx.AsyncClient, triton: FakeTriton, app: FastAPI, path: str) -> None:
    response = await client.get(path)
    assert response.status_code == 200
    assert triton.model is not None
    report = response.json()
    assert report["status"] == "ready"
    assert report["model"] == "clef-flash"
    assert report["revision"] == triton.model.revision
    assert len(report["fingerprint"]) == 16
    assert_documented(app, response)


async def test_is_503_until_the_first_answer(ensemble: FakeEnsemble) -> None:
    triton = FakeTriton(ensemble, up=False)
    app = create_app(quick(), triton)
    async with client_of(app) as client:
        response = await client.get("/health")
        assert response.status_code == 503
        report = response.json()
        assert report.pop("fingerprint")
        assert report == {"status": "unavailable", "model": None, "revision": None}
        assert_documented(app, response)
        triton.up = True
        assert await until_ready(client) < 2


async def test_the_fingerprint_follows_the_settings_of_the_steps(ensemble: FakeEnsemble) -> None:
    seen = set()
    for steps, settings in (
        (ensemble, Settings()),
        (FakeEnsemble(digits=3), Settings()),
        (FakeEnsemble(max_questions=3), Settings()),
        (ensemble, Settings(request_timeout_ms=1_000)),
        (ensemble, Settings(port=1)),
    ):
        async with client_of(create_app(settings, FakeTriton(steps))) as client:
            await until_ready(client)
            seen.add((await client.get("/health")).json()["fingerprint"])
    assert len(seen) == 4


async def test_goes_down_and_comes_back_with_triton(fast: httpx.AsyncClient, triton: FakeTriton) -> None:
    for _ in range(2):
        triton.up = False
        assert await until_ready(fast, ready=False) < 1
        triton.up = True
        assert await until_ready(fast) < 2


async def test_a_dead_step_behind_a_ready_server_is_noticed(fast: httpx.AsyncClient, triton: FakeTriton) -> None:
    triton.fault = lambda call: InternalError()
    assert await until_ready(fast, ready=False) < 1
    assert await triton.ready(1.0)


async def test_a_stack_that_hangs_is_noticed(fast: httpx.AsyncClient, triton: FakeTriton) -> None:
    triton.latency_s = 60.0
    assert await until_ready(fast, ready=False) < 1


async def test_no_heartbeat_while_real_answers_come(fast: httpx.AsyncClient, triton: FakeTriton) -> None:
    await fast.post("/v1/systemone", json=NOUL)
    before = len(triton.calls) - len(triton.real_calls)
    for _ in range(20):
        await asyncio.sleep(0.02)
        await fast.post("/v1/systemone", json=NOUL)
    assert len(triton.calls) - len(triton.real_calls) == before
    await asyncio.sleep(0.3)
    assert len(triton.calls) - len(triton.real_calls) > before


async def test_load_alone_never_turns_it_false(fast: httpx.AsyncClient, triton: FakeTriton) -> None:
    # Heartbeats are refused as by a full queue or come too late, while real answers come slowly.
    refusals = iter([Overloaded("full"), DeadlineExceeded("late")] * 100)
    triton.fault = lambda call: next(refusals) if call.request_id == "heartbeat" else None
    triton.latency_s = 0.15
    statuses = set()

    async def watch() -> None:
        while True:
            statuses.add((await fast.get("/health")).status_code)
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    for _ in range(10):
        assert (await fast.post("/v1/systemone", json=NOUL)).status_code == 200
    watching.cancel()
    assert statuses == {200}


class TestBeat:
    """One beat at a time, without the loop."""

    @pytest.fixture
    def heartbeat(self, triton: FakeTriton) -> Heartbeat:
        return Heartbeat(quick(), triton)

    async def test_an_inside_failure_outweighs_an_answer_during_the_beat(
        self, heartbeat: Heartbeat, triton: FakeTriton
    ) -> None:
        def fault(call: Call) -> Exception:
            heartbeat.answered()
            return InternalError()

        triton.fault = fault
        await heartbeat.beat()
        assert not heartbeat.ready

    async def test_an_answer_during_the_beat_outweighs_a_refusal(
        self, heartbeat: Heartbeat, triton: FakeTriton
    ) -> None:
        def fault(call: Call) -> Exception:
            heartbeat.answered()
            return Overloaded("full")

        triton.fault = fault
        await heartbeat.beat()
        assert heartbeat.ready

    async def test_a_proof_ages(self, heartbeat: Heartbeat) -> None:
        await heartbeat.beat()
        assert heartbeat.ready
        await asyncio.sleep(0.9)
        assert not heartbeat.ready

    async def test_a_failed_request_is_looked_into_at_once_and_not_in_a_storm(self, triton: FakeTriton) -> None:
        heartbeat = Heartbeat(Settings(health_interval_ms=60_000), triton)
        running = asyncio.create_task(heartbeat.run())
        async with asyncio.timeout(10):
            while not heartbeat.ready:
                await asyncio.sleep(0.01)
        assert len(triton.calls) == 1
        triton.up = False
        began = time.monotonic()
        while heartbeat.ready:
            heartbeat.failed()
            await asyncio.sleep(0.01)
            assert time.monotonic() - began < 3
        assert len(triton.calls) <= 3
        running.cancel()
