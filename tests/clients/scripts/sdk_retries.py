"""typesafe-sdk: its default retries get through what passes by itself, and wait as our headers say."""

import asyncio
import os
import time

import httpx2
from asking import QUESTIONS, raised, report
from typesafe_sdk import AsyncTypeSafeClient, TypeSafeClient, TypeSafeRateLimitError

URL = os.environ["FAULTY_URL"]
counts = []


def client():
    hooks = {"request": [lambda request: counts.append(request.headers.get("x-typesafe-retry-count", "0"))]}
    return TypeSafeClient(base_url=URL, http_client=httpx2.Client(timeout=60, event_hooks=hooks))


def timed(call):
    counts.clear()
    started = time.monotonic()
    result = call()
    return result, time.monotonic() - started


with client() as sdk:
    # retry-after-ms says 250 ms and retry-after a whole second: the first is read first.
    response, took = timed(lambda: sdk.system_one({"fault": "limited", "times": 2}, QUESTIONS))
    assert response.answers and counts == ["0", "1", "2"], counts
    assert 0.5 <= took < 0.9, took

    # An overload asks for a second.
    response, took = timed(lambda: sdk.system_one({"fault": "overloaded", "times": 1}, QUESTIONS))
    assert response.answers and counts == ["0", "1"], counts
    assert 1.0 <= took < 1.4, took

    # A failure of ours says nothing of when: the SDK's own backoff, half a second less its jitter.
    response, took = timed(lambda: sdk.system_one({"fault": "broken", "times": 1}, QUESTIONS))
    assert response.answers and counts == ["0", "1"], counts
    assert 0.3 <= took < 1.0, took

    error, _ = timed(
        lambda: raised(TypeSafeRateLimitError, lambda: sdk.system_one({"fault": "limited", "times": 9}, QUESTIONS))
    )
    assert counts == ["0", "1", "2"] and error.retry_after_ms == 250.0


async def awaited():
    async with AsyncTypeSafeClient(base_url=URL) as sdk:
        states = [{"fault": "limited", "times": 2, "number": number} for number in range(4)]
        return await asyncio.gather(*(sdk.system_one(state, QUESTIONS) for state in states))


assert all(response.answers for response in asyncio.run(awaited()))
report(8, error)
