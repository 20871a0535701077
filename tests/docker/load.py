"""Clients of the edge, and what they meet."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from tests.docker.edge import Edge
from tests.invariants import assert_answer

REQUEST: dict[str, Any] = {"state": "The site is down!", "questions": {"outage": {"type": "noul"}}}
LOAD_CLIENTS = 8


class Load:
    """Clients that ask one request after another, each with its own question id, until the block ends.

    `padding` bytes in a field that nobody reads make a body large.
    """

    def __init__(self, running_edge: Edge, padding: int = 0) -> None:
        self._edge, self._padding = running_edge, " " * padding
        self.failures: list[str] = []
        self.answers = 0

    async def __aenter__(self) -> Load:
        self._ending = False
        self._client = self._edge.async_client()
        self._tasks = [asyncio.create_task(self._ask(number)) for number in range(LOAD_CLIENTS)]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._ending = True
        await asyncio.gather(*self._tasks)
        await self._client.aclose()

    async def answered(self, more: int) -> None:
        """Until `more` further requests were answered."""
        wanted = self.answers + more
        async with asyncio.timeout(60):
            while self.answers < wanted:
                assert not self.failures, self.failures
                await asyncio.sleep(0.02)

    async def _ask(self, number: int) -> None:
        turn = 0
        while not self._ending:
            turn += 1
            questions = {f"client {number}, turn {turn}": {"type": "noul"}}
            request = {"state": "The site is down!", "questions": questions, "padding": self._padding}
            try:
                response = await self._client.post("/v1/systemone", json=request)
            except httpx.HTTPError as error:
                self.failures.append(repr(error))
                continue
            if response.status_code == 200:
                assert_answer(request, response.json())
                self.answers += 1
            else:
                self.failures.append(f"{response.status_code} {response.text}")
