"""A client that leaves: what the model had not begun is not computed."""

from __future__ import annotations

import asyncio

import httpx

from tests.golden_cases import CASES
from tests.stack.running import ask

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
