"""A request past its deadline is a 504 at once, and the model does not compute it."""

from __future__ import annotations

import asyncio
import time

import httpx

from tests.golden_cases import CASES
from tests.stack.running import Stack, ask, start_frontend

SHORT = CASES["noul-only"]["request"]
REQUESTS = 12


def blocker(word: str) -> dict:
    """A request that keeps the model busy for a while, and shares its beginning with no other."""
    return {"state": f"{word} " + "lorem ipsum dolor " * 700, "questions": {"q": {"type": "noul"}}}


async def until_it_computes(stack: Stack, request_id: str) -> None:
    while not stack.lines(request_id):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)


async def test_what_waits_past_its_deadline_is_dropped(stack, grpc, tmp_path):
    measured = await asyncio.to_thread(ask, grpc, blocker("first"))
    busy_ms = float(measured.as_numpy("COMPUTE_MS")[0, 0])
    timeout_ms = int(busy_ms * 0.2)
    with start_frontend(tmp_path, stack.ports, SYSTEMONE_REQUEST_TIMEOUT_MS=str(timeout_ms)) as (url, _):
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            blocking = asyncio.create_task(asyncio.to_thread(ask, grpc, blocker("second"), request_id="blocker"))
            await until_it_computes(stack, "blocker")
            start = time.monotonic()
            ids = [f"impatient-{index}" for index in range(REQUESTS)]
            answers = await asyncio.gather(
                *(client.post("/v1/systemone", json=SHORT, headers={"x-request-id": name}) for name in ids)
            )
            waited_ms = (time.monotonic() - start) * 1e3
            assert not blocking.done(), "they were to wait for it"
    assert [answer.status_code for answer in answers] == [504] * REQUESTS
    assert {answer.json()["detail"]["error_type"] for answer in answers} == {"timeout_error"}
    assert waited_ms < busy_ms, "an answer waited for the model"
    await blocking
    after = await asyncio.to_thread(ask, grpc, SHORT)
    assert after.as_numpy("BATCH_SIZE")[0, 0] == 1
    assert float(after.as_numpy("QUEUE_MS")[0, 0]) < busy_ms / 2, "the model was still busy"
    for name in ids:
        *_, model = stack.lines(name)
        assert (model["logger"], model["status"]) == ("clef_model", 504)
