"""Readiness while a micro-batch takes longer than a heartbeat may: over real gRPC, with the steps as Triton has them.

The times are half of the defaults and less.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from frontend.app import create_app
from frontend.settings import Settings
from frontend.triton import TritonClient
from tests.frontend.kserve_server import STEPS, Kserve, serving
from tests.frontend.running import NOUL, client_of, until_ready

SETTINGS = {"health_interval_ms": 500, "health_timeout_ms": 1_500}
# After its last proof a server is unready by itself.
STALE_S = 0.5 + 1.5 + 0.5


@pytest.fixture
async def start(kserve: Kserve) -> AsyncIterator[object]:
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving(kserve))

        async def opened(**settings: int) -> httpx.AsyncClient:
            app = create_app(Settings(**{**SETTINGS, **settings}), TritonClient(f"127.0.0.1:{port}"))  # type: ignore[arg-type]
            client = await stack.enter_async_context(client_of(app))
            await until_ready(client)
            return client

        yield opened


async def load(client: httpx.AsyncClient, kserve: Kserve, seconds: float, requests: int = 3) -> list[asyncio.Task]:
    """Requests that are with the model for so long."""
    kserve.latency_s = seconds
    before = len(kserve.requests)
    running = [asyncio.create_task(client.post("/v1/systemone", json=NOUL)) for _ in range(requests)]
    while len(kserve.requests) < before + requests:
        await asyncio.sleep(0.01)
    return running


async def statuses_until(client: httpx.AsyncClient, running: list[asyncio.Task]) -> list[int]:
    seen = []
    while not all(task.done() for task in running):
        seen.append((await client.get("/health")).status_code)
        await asyncio.sleep(0.02)
    return seen


async def test_a_micro_batch_of_any_length_is_no_reason(start, kserve: Kserve) -> None:
    client = await start()
    running = await load(client, kserve, 2 * STALE_S)
    assert set(await statuses_until(client, running)) == {200}
    assert [task.result().status_code for task in running] == [200] * 3


async def test_the_load_of_another_frontend_is_no_reason_either(start, kserve: Kserve) -> None:
    busy, idle = await start(), await start()
    running = await load(busy, kserve, 2 * STALE_S)
    assert set(await statuses_until(idle, running)) == {200}
    assert [task.result().status_code for task in running] == [200] * 3


async def test_a_dead_step_is_noticed_behind_another_frontends_load_too(start, kserve: Kserve) -> None:
    busy, idle = await start(), await start()
    running = await load(busy, kserve, 20.0)
    await asyncio.sleep(STALE_S)
    assert (await idle.get("/health")).status_code == 200
    kserve.death_s, kserve.dead = 60.0, {"clef_preprocess"}
    assert await until_ready(idle, ready=False) < STALE_S
    for task in running:
        task.cancel()


async def test_a_queue_before_the_first_step_is_no_reason_while_others_are_answered(start, kserve: Kserve) -> None:
    busy, idle = await start(), await start()
    # A heartbeat waits behind eight requests, for longer than it may.
    kserve.read_s = 0.4

    async def ask() -> None:
        while True:
            await busy.post("/v1/systemone", json=NOUL)

    asking = [asyncio.create_task(ask()) for _ in range(8)]
    over = asyncio.create_task(asyncio.sleep(3 * STALE_S))
    assert set(await statuses_until(idle, [over])) == {200}
    assert kserve.answers > 8
    # The first step stands still now, and nobody is answered any more.
    kserve.read_s = 60.0
    assert await until_ready(idle, ready=False) < 2 * STALE_S
    for task in asking:
        task.cancel()


async def test_heartbeats_are_no_load_to_each_other(start, kserve: Kserve) -> None:
    first, second = await start(), await start()
    kserve.latency_s = 20.0
    assert await until_ready(first, ready=False) + await until_ready(second, ready=False) < 2 * STALE_S


@pytest.mark.parametrize("death_s", [0.5, 60.0], ids=["killed", "hung"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_dead_step_is_noticed_behind_a_long_micro_batch(
    start, kserve: Kserve, step: str, death_s: float
) -> None:
    client = await start()
    running = await load(client, kserve, 20.0)
    while kserve.requests[-1].model_name != STEPS[-1]:
        await asyncio.sleep(0.01)
    assert (await client.get("/health")).status_code == 200
    kserve.death_s, kserve.dead = death_s, {step}
    assert await until_ready(client, ready=False) < STALE_S
    for task in running:
        task.cancel()


async def test_an_idle_server_that_answers_nothing_is_down_though_its_steps_live(start, kserve: Kserve) -> None:
    client = await start()
    kserve.latency_s = 20.0
    assert await until_ready(client, ready=False) < STALE_S


async def test_a_load_is_believed_for_four_times_a_requests_time(start, kserve: Kserve) -> None:
    client = await start(request_timeout_ms=1_000)
    began = time.monotonic()
    kserve.latency_s = 20.0

    async def ask() -> None:
        while True:
            await client.post("/v1/systemone", json=NOUL)

    asking = [asyncio.create_task(ask()) for _ in range(3)]
    await until_ready(client, ready=False)
    assert 3.5 < time.monotonic() - began < 4.0 + STALE_S
    await asyncio.sleep(1.0)
    assert (await client.get("/health")).status_code == 503, "steps that live bring no answers back"
    kserve.latency_s = 0.0
    await until_ready(client)
    for task in asking:
        task.cancel()


async def test_a_triton_that_says_it_is_not_ready_is_believed_under_load(start, kserve: Kserve) -> None:
    client = await start()
    running = await load(client, kserve, 20.0)
    kserve.is_ready = False
    assert await until_ready(client, ready=False) < STALE_S
    for task in running:
        task.cancel()
