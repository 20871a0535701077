"""`python -m frontend` as a process of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]


@dataclass
class Frontend:
    process: asyncio.subprocess.Process
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def stopped(self) -> int:
        return await asyncio.wait_for(self.process.wait(), 20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def frontend(log: Path, *arguments: str, **environment: str) -> AsyncIterator[Frontend]:
    port = free_port()
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "frontend",
            *arguments,
            cwd=ROOT,
            env={**os.environ, "FRONTEND_PORT": str(port), **environment},
            stdout=output,
            stderr=output,
        )
    try:
        yield Frontend(process, port, log)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def connectable(client: httpx.AsyncClient) -> None:
    for _ in range(200):
        try:
            await client.get("/health")
            return
        except httpx.ConnectError:
            await asyncio.sleep(0.05)
    raise AssertionError("the frontend does not listen")
