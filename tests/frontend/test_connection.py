"""What comes before a request is one: heads that are slow, endless or none, over real sockets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from frontend.connection import MAX_HEAD_BYTES
from tests.frontend.fakes import FakeEnsemble
from tests.frontend.kserve_server import Kserve, serving
from tests.frontend.processes import Frontend, connectable, frontend
from tests.frontend.running import NOUL, until_ready

TIMEOUT_S = 1.0
BODY = json.dumps(NOUL).encode()
POST = b"POST /v1/systemone HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY)
GET = b"GET /api/version HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def kserve(ensemble: FakeEnsemble) -> Kserve:
    return Kserve(ensemble)


@pytest.fixture(scope="module")
async def impatient(kserve: Kserve, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Frontend]:
    settings = {"SYSTEMONE_BODY_TIMEOUT_MS": str(int(TIMEOUT_S * 1000)), "SYSTEMONE_HEALTH_INTERVAL_MS": "60000"}
    log = tmp_path_factory.mktemp("connection") / "log"
    async with (
        serving(kserve) as triton,
        frontend(log, TRITON_URL=f"127.0.0.1:{triton}", **settings) as started,
        httpx.AsyncClient(base_url=started.url) as client,
    ):
        await connectable(client)
        await until_ready(client)
        yield started


@asynccontextmanager
async def connected(server: Frontend) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        async with asyncio.timeout(20):
            yield reader, writer
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], Any]:
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return int(status.split()[1]), headers, json.loads(await reader.readexactly(int(headers["content-length"])))


async def assert_refused(reader: asyncio.StreamReader, status: int, error_type: str) -> None:
    """The contract's shape and headers, and the end of the connection."""
    told, headers, content = await answer(reader)
    assert (told, content["detail"]["error_type"]) == (status, error_type)
    assert content["detail"].keys() == {"error_type", "message"} and content["detail"]["message"]
    assert (headers["content-type"], headers["connection"]) == ("application/json", "close")
    assert headers["x-request-id"] == headers["x-typesafe-request-id"]
    assert await reader.read() == b""


@pytest.mark.parametrize(
    "data",
    [
        b"canary\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        b"POST /v1/systemone HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/systemone HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=["words", "version", "header", "TLS", "length", "chunk", "HTTP/2"],
)
async def test_what_is_no_http_is_refused_as_everything_else(impatient: Frontend, data: bytes) -> None:
    async with connected(impatient) as (reader, writer):
        writer.write(data)
        await assert_refused(reader, 400, "invalid_request_error")
    assert "canary" not in impatient.log.read_text()


@pytest.mark.parametrize("begin", [b"POST /v1/sys", GET[:-2], b"\r\n\r\n", GET + GET[:10]])
async def test_a_slow_head_is_refused(impatient: Frontend, begin: bytes) -> None:
    async with connected(impatient) as (reader, writer):
        began = time.monotonic()
        writer.write(begin)
        if begin.startswith(GET):
            assert (await answer(reader))[0] == 200

        async def drip() -> None:
            # Each byte within the time, and the whole not.
            while True:
                await asyncio.sleep(0.1)
                writer.write(b"\r\n" if begin == b"\r\n\r\n" else b"x")

        dripping = asyncio.create_task(drip())
        await assert_refused(reader, 408, "timeout_error")
        assert TIMEOUT_S * 0.9 < time.monotonic() - began < TIMEOUT_S + 3
        dripping.cancel()


async def test_a_connection_that_says_nothing_is_closed_without_a_word(impatient: Frontend) -> None:
    async with connected(impatient) as (reader, _):
        began = time.monotonic()
        assert await reader.read() == b""
        assert TIMEOUT_S * 0.9 < time.monotonic() - began < TIMEOUT_S + 3


@pytest.mark.parametrize("begin", [b"GET /", GET[:-2] + b"x-a: ", b""])
async def test_a_head_without_end_is_refused(impatient: Frontend, begin: bytes) -> None:
    async with connected(impatient) as (reader, writer):
        lines = [b"x-%d: 0123456789abcdef\r\n" % k for k in range(MAX_HEAD_BYTES)]
        writer.write(begin + (b"x" * MAX_HEAD_BYTES if begin else GET[:-2] + b"".join(lines)[:MAX_HEAD_BYTES]))
        await assert_refused(reader, 413, "request_too_large")


async def test_a_head_at_the_limit_is_taken(impatient: Frontend) -> None:
    async with connected(impatient) as (reader, writer):
        head = GET[:-2] + b"x-a: " + b"y" * (MAX_HEAD_BYTES - len(GET) - 7) + b"\r\n\r\n"
        assert len(head) == MAX_HEAD_BYTES
        for part in (head[:-1], head[-1:]):
            writer.write(part)
            await asyncio.sleep(0.05)
        assert (await answer(reader))[0] == 200


async def test_an_answer_may_take_longer_than_a_head_and_so_may_the_next_request(
    impatient: Frontend, kserve: Kserve
) -> None:
    kserve.latency_s = 1.5 * TIMEOUT_S
    try:
        async with connected(impatient) as (reader, writer):
            # The next head's beginning waits behind the answer, which is not lost for it.
            writer.write(POST + BODY + GET[:10])
            assert (await answer(reader))[0] == 200
            writer.write(GET[10:])
            assert (await answer(reader))[0] == 200
            await asyncio.sleep(1.5 * TIMEOUT_S)
            writer.write(GET)
            assert (await answer(reader))[0] == 200
    finally:
        kserve.latency_s = 0.0


async def test_a_client_that_ends_its_side_has_left(impatient: Frontend, kserve: Kserve) -> None:
    """TCP tells no difference between one that only sends no more and one that is gone."""
    kserve.latency_s = 10.0
    before = kserve.cancelled
    try:
        async with connected(impatient) as (reader, writer):
            asked = len(kserve.requests)
            writer.write(POST + BODY)
            while len(kserve.requests) == asked:
                await asyncio.sleep(0.01)
            writer.write_eof()
            assert await reader.read() == b""
        while kserve.cancelled == before:
            await asyncio.sleep(0.01)
    finally:
        kserve.latency_s = 0.0
    statuses = [json.loads(line).get("status") for line in impatient.log.read_text().splitlines()]
    assert 499 in statuses


CHUNKED = b"POST /v1/systemone HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"%x\r\n%s\r\n" % (len(BODY), BODY)


async def test_a_trailer_is_no_header(impatient: Frontend) -> None:
    """Not for what an edge sets, either: it would be the last of its name."""
    async with connected(impatient) as (reader, writer):
        writer.write(CHUNKED + CHUNK + b"0\r\nX-Request-Id: trailed\r\nAuthorization: Bearer x\r\n\r\n" + GET)
        status, headers, _ = await answer(reader)
        assert (status, headers["x-request-id"] == "trailed") == (200, False)
        assert (await answer(reader))[0] == 200


@pytest.mark.parametrize("what", [b"a: 0123456789abcdef\r\n", b"x"], ids=["lines", "one line"])
async def test_trailers_without_end_are_refused(impatient: Frontend, what: bytes) -> None:
    async with connected(impatient) as (reader, writer):
        writer.write(CHUNKED + CHUNK + b"0\r\n" + (b"" if what[2:] else b"a: "))
        await asyncio.sleep(0.1)
        writer.write(what * (MAX_HEAD_BYTES // len(what) + 1))
        await assert_refused(reader, 413, "request_too_large")


async def test_a_body_in_chunks_may_be_longer_than_a_head(impatient: Frontend) -> None:
    async with connected(impatient) as (reader, writer):
        writer.write(CHUNKED)
        for _ in range(3 * MAX_HEAD_BYTES // 1000):
            writer.write(b"3e8\r\n" + b" " * 1000 + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(CHUNK + b"0\r\n\r\n")
        assert (await answer(reader))[0] == 200


@pytest.mark.parametrize("cut", [10, len(POST) + 60, len(POST) + 80, None])
@pytest.mark.parametrize("chunked", [False, True])
async def test_an_offer_of_another_protocol_is_declined_and_the_request_answered(
    impatient: Frontend, chunked: bool, cut: int | None
) -> None:
    """Java's client makes one with its first request to each server; uvicorn took such a request's body away."""
    async with connected(impatient) as (reader, writer):
        offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n\r\n"
        head, body = (CHUNKED, CHUNK + b"0\r\n\r\n") if chunked else (POST, BODY)
        request = head[:-2] + offer + body
        for part in (request[:cut], request[cut:] if cut else b"", request + GET):
            writer.write(part)
            await asyncio.sleep(0.05)
        for _ in range(2):
            status, _, content = await answer(reader)
            assert (status, list(content["answers"])) == (200, list(NOUL["questions"]))
        assert (await answer(reader))[0] == 200


async def test_a_great_many_offers_are_each_declined(impatient: Frontend) -> None:
    async with connected(impatient) as (reader, writer):
        writer.write((GET[:-2] + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n") * 2_000)
        for _ in range(2_000):
            assert (await answer(reader))[0] == 200


async def test_what_is_no_http_is_not_the_answer_to_the_request_before_it(impatient: Frontend, kserve: Kserve) -> None:
    kserve.latency_s = 0.2
    try:
        for behind in (b"canary\r\n\r\n", CHUNKED + b"ZZ\r\n"):
            async with connected(impatient) as (reader, writer):
                writer.write(POST + BODY + behind)
                assert await reader.read() == b""
    finally:
        kserve.latency_s = 0.0


async def test_a_client_that_leaves_with_more_behind_its_request_has_left_it_too(
    impatient: Frontend, kserve: Kserve
) -> None:
    kserve.latency_s = 10.0
    before, asked = kserve.cancelled, len(kserve.requests)
    try:
        async with connected(impatient) as (_, writer):
            writer.write((POST + BODY) * 3)
            while len(kserve.requests) == asked:
                await asyncio.sleep(0.01)
            writer.transport.abort()
            while kserve.cancelled == before:
                await asyncio.sleep(0.01)
    finally:
        kserve.latency_s = 0.0
    levels = {json.loads(line)["level"] for line in impatient.log.read_text().splitlines()}
    assert "error" not in levels
