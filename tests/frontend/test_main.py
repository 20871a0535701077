"""`python -m frontend` as a process of its own, in front of a real gRPC server."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.frontend.kserve_server import Kserve, serving
from tests.frontend.processes import Frontend, connectable, frontend
from tests.frontend.running import NOUL, body_of, until_ready
from tests.invariants import assert_answer

MIB = 1024 * 1024


async def test_answers_over_sockets(running: Frontend) -> None:
    async with httpx.AsyncClient(base_url=running.url) as client:
        response = await client.post("/v1/systemone", json=NOUL)
        assert response.status_code == 200
        assert_answer(NOUL, response.json())
        assert "server" not in response.headers
        too_deep = b'{"state":' + b"[" * 100_000 + b"]" * 100_000 + b',"questions":{"q":{"type":"noul"}}}'
        assert (await client.post("/v1/systemone", content=too_deep)).status_code == 422


async def test_o21_large_bodies(running: Frontend) -> None:
    async with httpx.AsyncClient(base_url=running.url, timeout=30) as client:
        five = body_of(5 * MIB)
        assert (await client.post("/v1/systemone", content=five)).status_code == 200

        async def chunks(body: bytes) -> AsyncIterator[bytes]:
            for start in range(0, len(body), MIB):
                yield body[start : start + MIB]

        assert (await client.post("/v1/systemone", content=chunks(five))).status_code == 200
        before = psutil.Process(running.process.pid).memory_info().rss
        huge = body_of(65 * MIB)
        for content in (huge, chunks(huge)):
            response = await client.post("/v1/systemone", content=content)
            assert response.status_code == 413
            assert response.json()["detail"]["error_type"] == "request_too_large"
            assert response.headers["connection"] == "close"
        assert psutil.Process(running.process.pid).memory_info().rss - before < 40 * MIB
        assert (await client.post("/v1/systemone", json=NOUL)).status_code == 200


async def test_a_body_that_is_too_long_by_its_own_word_need_not_be_sent(running: Frontend) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b"POST /v1/systemone HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 68157440\r\n\r\n")
    status = await asyncio.wait_for(reader.readline(), 10)
    assert status.startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_sigterm_answers_what_runs_and_takes_nothing_new(running: Frontend, kserve: Kserve) -> None:
    kserve.latency_s = 1.0
    async with httpx.AsyncClient(base_url=running.url, timeout=30) as client:
        asked = len(kserve.requests)
        call = asyncio.create_task(client.post("/v1/systemone", json=NOUL, headers={"x-request-id": "in-flight"}))
        while not any(message.id == "in-flight" for message in kserve.requests[asked:]):
            await asyncio.sleep(0.01)
        running.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        with pytest.raises(httpx.ConnectError):
            async with httpx.AsyncClient(base_url=running.url) as late:
                await late.get("/health")
        response = await call
        assert response.status_code == 200
        assert_answer(NOUL, response.json())
    assert await running.stopped() == 0


async def test_its_log_is_json_lines_without_content(running: Frontend) -> None:
    async with httpx.AsyncClient(base_url=running.url) as client:
        await client.post("/v1/systemone?canary7261", json={**NOUL, "state": "canary7261"})
        await client.post("/v1/systemone", content=b"canary7261")
    running.process.send_signal(signal.SIGTERM)
    assert await running.stopped() == 0
    lines = [json.loads(line) for line in running.log.read_text().splitlines()]
    assert "canary7261" not in running.log.read_text()
    assert [line["status"] for line in lines if line.get("route") == "/v1/systemone"] == [200, 422]


async def test_serves_503_until_triton_comes(kserve: Kserve, tmp_path: Path) -> None:
    async with serving(kserve) as port:
        pass
    async with (
        frontend(tmp_path / "log", TRITON_URL=f"127.0.0.1:{port}") as started,
        httpx.AsyncClient(base_url=started.url) as client,
    ):
        await connectable(client)
        response = await client.post("/v1/systemone", json=NOUL)
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        async with serving(kserve, port):
            await until_ready(client)
            assert (await client.post("/v1/systemone", json=NOUL)).status_code == 200
        assert await until_ready(client, ready=False) < 5


async def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    async with frontend(tmp_path / "log", SYSTEMONE_REQUEST_TIMEOUT_MS="soon") as started:
        assert await started.stopped() == 2
    assert "SYSTEMONE_REQUEST_TIMEOUT_MS" in started.log.read_text()


@pytest.mark.parametrize(("argument", "status"), [("--help", 0), ("--port=1", 2)])
async def test_arguments_start_nothing(tmp_path: Path, argument: str, status: int) -> None:
    async with frontend(tmp_path / "log", argument) as started:
        assert await started.stopped() == status
    assert started.log.read_text().startswith("usage: python -m frontend")


async def test_a_busy_port_ends_it(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        async with frontend(tmp_path / "log", FRONTEND_PORT=str(taken.getsockname()[1])) as started:
            assert await started.stopped() not in (0, None)
    assert "address already in use" in started.log.read_text()
