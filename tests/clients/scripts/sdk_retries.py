"""typesafe-sdk: its default retries get through what passes by itself, after the waits that our headers name."""

import asyncio
import os
import time

import httpx2
from asking import QUESTIONS, raised, report
from typesafe_sdk import AsyncTypeSafeClient, TypeSafeClient, TypeSafeRateLimitError

URL = os.environ["FAULTY_URL"]
attempts, waits = [], []
# What the SDK's retries sleep by. The waits are read, not waited for.
time.sleep = waits.append


def client():
    hooks = {"request": [lambda request: attempts.append(request.headers.get("x-typesafe-retry-count"))]}
    return TypeSafeClient(base_url=URL, http_client=httpx2.Client(timeout=60, event_hooks=hooks))


def ask(sdk, fault, times):
    attempts.clear()
    waits.clear()
    return sdk.system_one({"fault": fault, "times": times, "of": "retries"}, QUESTIONS)


with client() as sdk:
    # retry-after-ms is read before retry-after, which can only say a whole second.
    assert ask(sdk, "limited", 2).answers
    assert attempts == [None, "1", "2"] and waits == [0.25, 0.25], (attempts, waits)

    assert ask(sdk, "overloaded", 1).answers
    assert attempts == [None, "1"] and waits == [1.0], (attempts, waits)

    # A failure and a missed deadline say nothing of when: the SDK's own half second, less its jitter.
    for fault in ("broken", "late"):
        assert ask(sdk, fault, 1).answers
        assert attempts == [None, "1"] and 0.375 <= waits[0] <= 0.5, (attempts, waits)

    error = raised(TypeSafeRateLimitError, lambda: ask(sdk, "limited", 9))
    assert attempts == [None, "1", "2"] and error.retry_after_ms == 250.0


async def awaited():
    async with AsyncTypeSafeClient(base_url=URL) as sdk:
        states = [{"fault": "limited", "times": 2, "number": number} for number in range(4)]
        return await asyncio.gather(*(sdk.system_one(state, QUESTIONS) for state in states))


assert all(response.answers for response in asyncio.run(awaited()))
report(9, error)
