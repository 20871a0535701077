"""Triton's response cache as the frontend uses it: what is one request, and what is said of a kept answer."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from frontend import keyfile
from frontend.app import create_app
from frontend.decision import Decision
from frontend.response_cache import CacheKeys
from frontend.triton import TritonClient
from tests.frontend.fakes import FakeEnsemble
from tests.frontend.kserve_server import STEPS, Kserve, serving
from tests.frontend.places import Place, ask, sample
from tests.frontend.running import NOUL, client_of, until_ready
from tests.frontend.test_logs import access_lines

BODY = json.dumps(NOUL).encode()
ASKED: dict[str, Any] = {
    "account": "key:a",
    "model": b"{}",
    "parameters": {"digits": 2, "max_images": 1},
    "body": b"body",
    "images": [b"one", b"two"],
}


@pytest.fixture
def kserve() -> Kserve:
    return Kserve(FakeEnsemble(response_cache_bytes=1))


@asynccontextmanager
async def client_to(kserve: Kserve) -> AsyncIterator[TritonClient]:
    async with serving(kserve) as port:
        client = TritonClient(f"127.0.0.1:{port}")
        await client.start()
        yield client
        await client.close()


@pytest.fixture
async def triton(kserve: Kserve) -> AsyncIterator[TritonClient]:
    """One that knows the model that it asks."""
    async with client_to(kserve) as client:
        await decided(client, account=None)
        yield client


@pytest.fixture
async def client(kserve: Kserve, place: Place) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(kserve) as port:
        settings = place.settings(health_interval_ms=60_000)
        async with client_of(create_app(settings, TritonClient(f"127.0.0.1:{port}"))) as opened:
            await until_ready(opened)
            yield opened


async def decided(triton: TritonClient, account: str | None = "key:a", body: bytes = BODY, **asked: Any) -> Decision:
    return await triton.decide(body, request_id="id", deadline=time.time() + 10, account=account, **asked)


async def test_one_request_has_one_key() -> None:
    keys = CacheKeys()
    key = await keys.key(**ASKED)
    assert len(key) == 32
    assert key == await keys.key(**ASKED | {"parameters": {"max_images": 1, "digits": 2}})


@pytest.mark.parametrize(
    "other",
    [
        {"account": "key:b"},
        {"model": b'{"revision":"2"}'},
        {"parameters": {"digits": 3, "max_images": 1}},
        {"parameters": {"digits": 2}},
        {"parameters": {"digits": "2", "max_images": 1}},
        {"parameters": {"digits": 2, "max_images": True}},
        {"body": b"Body"},
        {"images": [b"two", b"one"]},
        {"images": [b"onet", b"wo"]},
        {"images": [b"onetwo"]},
        {"images": []},
        {"body": b"bodyone", "images": [b"two"]},
    ],
    ids=str,
)
async def test_any_other_has_another(other: dict[str, Any]) -> None:
    keys = CacheKeys()
    assert await keys.key(**ASKED) != await keys.key(**ASKED | other)


async def test_another_process_has_other_keys() -> None:
    assert await CacheKeys().key(**ASKED) != await CacheKeys().key(**ASKED)


async def test_a_large_request_leaves_the_loop_alone() -> None:
    keys, turns = CacheKeys(), 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.001)

    turning = asyncio.create_task(turn())
    large = ASKED | {"body": bytes(32 << 20)}
    assert await keys.key(**large) == await keys.key(**large) != await keys.key(**ASKED)
    turning.cancel()
    assert turns > 10


async def test_the_same_is_answered_again(triton: TritonClient, kserve: Kserve) -> None:
    first, second = await decided(triton), await decided(triton)
    assert not first.cached and first.compute_ms == 2.5
    assert second.cached and set(second.times_ms.values()) == {0.0} and second.batch_size == 0
    assert (second.response, second.model, second.images) == (first.response, first.model, first.images)
    assert [request.model_name for request in kserve.requests] == ["clef", "clef_cached", "clef_cached"]
    assert kserve.answers == 2


@pytest.mark.parametrize("other", [{"account": "key:b"}, {"parameters": {"digits": 2}}, {"body": BODY + b" "}], ids=str)
async def test_another_is_computed(triton: TritonClient, other: dict[str, Any]) -> None:
    assert not (await decided(triton)).cached
    assert not (await decided(triton, **other)).cached
    assert (await decided(triton, **other)).cached


async def test_without_an_account_it_is_computed(triton: TritonClient, kserve: Kserve) -> None:
    for _ in range(2):
        assert not (await decided(triton, account=None)).cached
    assert {request.model_name for request in kserve.requests} == {"clef"}


async def test_where_triton_keeps_nothing_it_is_not_asked_to() -> None:
    kserve = Kserve(FakeEnsemble())
    async with client_to(kserve) as triton:
        for _ in range(3):
            assert not (await decided(triton)).cached
    assert {request.model_name for request in kserve.requests} == {"clef"}


async def test_another_model_answers_for_itself(triton: TritonClient, kserve: Kserve) -> None:
    before = await decided(triton)
    kserve.ensemble = FakeEnsemble(response_cache_bytes=1, digits=2)
    kept = await decided(triton)
    assert kept.cached and kept.model is before.model, "nothing has told of the other one yet"
    await decided(triton, account=None)
    after = await decided(triton)
    assert not after.cached and after.model.settings["digits"] == 2


async def test_kept_answers_are_no_answers_of_the_steps(triton: TritonClient) -> None:
    for _ in range(3):
        await decided(triton)
    assert await triton.answers(1.0) == 2


async def test_a_kept_answer_says_so_everywhere(
    client: httpx.AsyncClient, kserve: Kserve, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "frontend"):
        computed, kept = await ask(client), await ask(client)
    assert kserve.hits == 1 and kept.content == computed.content
    assert "cache" not in computed.headers["server-timing"] and computed.headers["x-batch-size"] == "3"
    *steps, total, cache = kept.headers["server-timing"].split(", ")
    assert steps == [f"{step};dur=0.000" for step in ("queue", "preprocess", "compute", "postprocess")]
    assert total.startswith("total;dur=") and cache == "cache;desc=hit"
    assert kept.headers["x-batch-size"] == "0"
    assert kept.headers["x-model-revision"] == computed.headers["x-model-revision"]
    tokens = kept.json()["usage"]["input_tokens"]
    assert await sample(client, "systemone_cached_decisions_total") == 1
    assert await sample(client, "systemone_step_seconds_count", step="compute") == 1
    assert await sample(client, "systemone_batch_records_count") == 1
    assert await sample(client, "systemone_input_tokens_total") == 2 * tokens
    lines = access_lines(caplog)
    assert [line.get("cached") for line in lines] == [None, 1]
    assert lines[1]["batch_size"] == 0 and lines[1]["tokens"] == tokens and "compute_ms" not in lines[1]


async def test_the_usage_log_counts_it_as_any_other(client: httpx.AsyncClient, place: Place) -> None:
    for _ in range(2):
        await ask(client)
    async with asyncio.timeout(10):
        while await sample(client, "systemone_usage_rows_written_total") != 2:
            await asyncio.sleep(0.05)
    rows = place.rows()
    assert [row.pop("batch_size") for row in rows] == [3, 0]
    counted = ("dialect", "status", "model", "questions", "images", "tokens")
    assert [rows[0][name] for name in counted] == [rows[1][name] for name in counted]


async def test_a_batch_counts_its_kept_items(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    items = [NOUL, {**NOUL, "state": "Another."}]
    with caplog.at_level(logging.INFO, "frontend"):
        first, second = [await client.post("/v1/systemone/batch", json=items) for _ in range(2)]
    assert [item["status"] for item in first.json()] == [200, 200] and second.json() == first.json()
    assert [line.get("cached") for line in access_lines(caplog)] == [None, 2]


async def test_keys_do_not_share_answers(place: Place, kserve: Kserve) -> None:
    alice, bob = place.add("alice"), place.add("bob")
    async with serving(kserve) as port:
        triton = TritonClient(f"127.0.0.1:{port}")
        async with client_of(create_app(place.settings(health_interval_ms=60_000), triton)) as client:
            await until_ready(client)
            for headers, hits in ((alice, 0), (bob, 0), (alice, 1), (bob, 2)):
                assert (await ask(client, headers)).status_code == 200
                assert kserve.hits == hits


async def test_a_new_key_has_no_answer_of_an_old_one_of_its_name(place: Place, kserve: Kserve) -> None:
    old = place.add("alice")
    async with serving(kserve) as port:
        triton = TritonClient(f"127.0.0.1:{port}")
        async with client_of(create_app(place.settings(health_interval_ms=60_000), triton)) as client:
            await until_ready(client)
            await ask(client, old)
            keyfile.write(place.keys, keyfile.read(place.keys).without_key("alice"))
            new = place.add("alice")
            for hits in (0, 1):
                assert (await ask(client, new)).status_code == 200
                assert kserve.hits == hits


async def test_kept_answers_hide_no_dead_step(place: Place, kserve: Kserve) -> None:
    async with serving(kserve) as port:
        settings = place.settings(health_interval_ms=100, health_timeout_ms=200)
        async with client_of(create_app(settings, TritonClient(f"127.0.0.1:{port}"))) as client:
            await until_ready(client)
            await ask(client)
            kserve.dead = set(STEPS)
            began = time.monotonic()
            while (await client.get("/health")).status_code == 200:
                assert (await ask(client)).headers["server-timing"].endswith("cache;desc=hit")
                assert time.monotonic() - began < 2
                await asyncio.sleep(0.01)
            assert {request.model_name for request in kserve.requests if request.id == "heartbeat"} == {"clef"}
