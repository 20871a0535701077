"""A client that leaves: what the model had not begun is not computed. A thousand that do leave nothing behind."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.golden_cases import CASES
from tests.stack.load import canary
from tests.stack.running import Stack, ask

LONG = {"state": "lorem ipsum dolor " * 300, "questions": {"q": {"type": "noul"}}}
SHORT = CASES["noul-only"]["request"]


def queue_ms(result) -> float:
    return float(result.as_numpy("QUEUE_MS")[0, 0])


async def test_an_abandoned_request_that_waits_is_not_computed(stack, grpc):
    computed_ms = float((await asyncio.to_thread(ask, grpc, LONG)).as_numpy("COMPUTE_MS")[0, 0])
    async with httpx.AsyncClient(base_url=stack.frontend, timeout=60) as client:
        abandoned = [asyncio.create_task(client.post("/v1/systemone", json=LONG)) for _ in range(12)]
        await asyncio.sleep(computed_ms / 1e3 / 2)
        for request in abandoned:
            request.cancel()
        await asyncio.wait(abandoned)
    after = await asyncio.to_thread(ask, grpc, LONG | {"state": LONG["state"] + "!"})
    # Two that ran already may be waited for; twelve are not.
    assert queue_ms(after) < 4 * computed_ms


async def test_leaving_does_not_touch_who_stays(stack):
    async with httpx.AsyncClient(base_url=stack.frontend, timeout=60, headers={"x-request-id": "the-same"}) as client:
        leaves = [asyncio.create_task(client.post("/v1/systemone", json=LONG)) for _ in range(4)]
        stays = [asyncio.create_task(client.post("/v1/systemone", json=SHORT)) for _ in range(4)]
        await asyncio.sleep(0.05)
        for request in leaves:
            request.cancel()
        answers = await asyncio.gather(*stays)
        await asyncio.wait(leaves)
    assert [answer.status_code for answer in answers] == [200] * 4
    assert {answer.json()["answers"]["outage"]["noul"] for answer in answers} == {
        CASES["noul-only"]["reference"]["response"]["answers"]["outage"]["noul"]
    }


HANGING_UP = 1000


async def hang_up(stack: Stack, request: dict[str, Any], after_s: float) -> None:
    """Send a request whole and close the connection a moment later, answered or not."""
    body = json.dumps(request).encode()
    where = urlsplit(stack.frontend)
    _, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(b"POST /v1/systemone HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()
    await asyncio.sleep(after_s)
    writer.transport.abort()


def computed(stack: Stack) -> float:
    return stack.metric("clef_records_total", of="triton")


async def until_nothing_is_left(stack: Stack) -> None:
    async with asyncio.timeout(30):
        while stack.metric("systemone_in_flight") or stack.metric("clef_queue_records", of="triton"):
            await asyncio.sleep(0.1)
    await asyncio.sleep(1.5)  # the model step tells its metrics every second


@pytest.mark.timeout(180)
async def test_a_thousand_clients_that_hang_up(stack, http, grpc):
    http.post("/v1/systemone", json=SHORT)
    await until_nothing_is_left(stack)
    descriptors, threads = stack.frontend_process.num_fds(), stack.frontend_process.num_threads()
    before, chance = computed(stack), random.Random(5)
    await asyncio.gather(*(hang_up(stack, canary(number), chance.random() / 2) for number in range(HANGING_UP)))
    await until_nothing_is_left(stack)
    assert computed(stack) - before < HANGING_UP / 4, "they were computed, though nobody waited for them"
    assert stack.frontend_process.num_fds() <= descriptors + 2
    assert stack.frontend_process.num_threads() == threads
    assert http.get("/health").status_code == 200
    answer = http.post("/v1/systemone", json=SHORT)
    assert answer.json()["answers"] == CASES["noul-only"]["reference"]["response"]["answers"]
    after = await asyncio.to_thread(ask, grpc, SHORT)
    assert queue_ms(after) < 1000
