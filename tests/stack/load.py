"""Many requests at once over HTTP, and requests whose answers cannot be taken for each other's."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from tests.invariants import assert_answer

# Of the lengths of the long tests. 1 is for every run; a soak of an hour is `SOAK_FACTOR=100`.
SOAK_FACTOR = float(os.environ.get("SOAK_FACTOR", "1"))
LOST = 0


@dataclass(frozen=True)
class Outcome:
    """What came of one request; `status` is LOST where the connection broke."""

    request: dict[str, Any]
    status: int
    seconds: float
    response: httpx.Response | None = None

    def answer(self) -> dict[str, Any]:
        """Its answer, which is its own as far as ids and options tell."""
        assert self.response is not None and self.status == 200
        assert_answer(self.request, self.response.json())
        return dict(self.response.json()["answers"])


async def post(client: httpx.AsyncClient, request: dict[str, Any]) -> Outcome:
    began = time.monotonic()
    try:
        response = await client.post("/v1/systemone", json=request)
    except httpx.TransportError:
        return Outcome(request, LOST, time.monotonic() - began)
    return Outcome(request, response.status_code, time.monotonic() - began, response)


async def post_all(url: str, requests: Iterable[dict[str, Any]], clients: int) -> list[Outcome]:
    """Every request, by so many clients that each ask one after another, in the order of the requests."""
    left = enumerate(requests)
    outcomes: dict[int, Outcome] = {}
    limits = httpx.Limits(max_connections=clients)

    async def one() -> None:
        for index, request in left:
            outcomes[index] = await post(client, request)

    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
        await asyncio.gather(*(one() for _ in range(clients)))
    return [outcomes[index] for index in sorted(outcomes)]


def counted(outcomes: Sequence[Outcome]) -> dict[int, int]:
    """How many there are of each status."""
    statuses = [outcome.status for outcome in outcomes]
    return {status: statuses.count(status) for status in sorted(set(statuses))}


def canary(number: int) -> dict[str, Any]:
    """A short request whose state, ids and options are its own."""
    options = [f"o{number}-{index}" for index in range(2 + number % 4)]
    kinds: list[dict[str, Any]] = [
        {"type": "noul", "instructions": f"Is it {number}?"},
        {"type": "choice", "criteria": dict.fromkeys(options, f"It is {number}")},
        {"type": "score", "criteria": options},
    ]
    questions = {f"q{number}-{index}": kinds[(number + index) % 3] for index in range(1 + number % 2)}
    return {"state": f"Parcel {number} of {number % 7} is {'late' if number % 2 else 'here'}.", "questions": questions}
