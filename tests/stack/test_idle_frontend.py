"""A frontend that nobody asks, beside a load on the same Triton that lets no heartbeat through in time."""

from __future__ import annotations

import asyncio

import httpx

from frontend.triton import TritonClient
from tests.golden_cases import CASES
from tests.stack.running import ask, start_frontend

ASKED = 20
HEARTBEATS = 10  # of the stack's own frontend, in the same time
TOKENS = 15_000  # one goes alone into a micro-batch


def blocker(word: str) -> dict:
    """A request that keeps the model busy, and shares its beginning with no other."""
    return {"state": f"{word} " + "word " * TOKENS, "questions": {"q": {"type": "noul"}}}


async def test_stays_ready(stack, grpc, tmp_path):
    measured = await asyncio.to_thread(ask, grpc, blocker("first"))
    assert measured.as_numpy("BATCH_SIZE")[0, 0] == 1
    busy_ms = float(measured.as_numpy("COMPUTE_MS")[0, 0])
    # A heartbeat would fail several times within one micro-batch, and a server that goes by it be unready.
    times = {"SYSTEMONE_HEALTH_INTERVAL_MS": busy_ms / 20, "SYSTEMONE_HEALTH_TIMEOUT_MS": busy_ms / 4}
    with start_frontend(tmp_path, stack.ports, **{name: str(int(value)) for name, value in times.items()}) as (url, _):
        load = [asyncio.create_task(asyncio.to_thread(ask, grpc, blocker(word))) for word in ("second", "third")]
        statuses = []
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            while not all(request.done() for request in load):
                statuses.append((await client.get("/health")).status_code)
                await asyncio.sleep(0.02)
    assert set(statuses) == {200} and len(statuses) > 20
    assert "not ready" not in (tmp_path / "frontend.log").read_text()


async def test_triton_counts_what_the_ensemble_answers(stack, grpc):
    triton = TritonClient(f"127.0.0.1:{stack.ports.grpc}")
    await triton.start()
    try:
        before = await triton.answers(5.0)
        for _ in range(ASKED):
            await asyncio.to_thread(ask, grpc, CASES["noul-only"]["request"])
        # It counts an answer after it has sent it.
        async with asyncio.timeout(5):
            while await triton.answers(5.0) < before + ASKED:
                await asyncio.sleep(0.05)
        assert await triton.answers(5.0) <= before + ASKED + HEARTBEATS
    finally:
        await triton.close()
