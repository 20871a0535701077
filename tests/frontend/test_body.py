from __future__ import annotations

import asyncio
import codecs
import gzip
import json
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
import zstandard

from frontend.app import create_app
from frontend.body import MAX_FRAMES, unpack_gzip, unpack_zstd
from frontend.settings import Settings
from preprocess.errors import InvalidRequest, RequestTooLarge
from tests.frontend.fakes import FakeEnsemble, FakeTriton
from tests.frontend.routes import ROUTES
from tests.frontend.running import NOUL, body_of, client_of, until_ready
from tests.invariants import assert_answer

MIB = 1024 * 1024
PACKERS = {"gzip": gzip.compress, "zstd": zstandard.compress}
UNPACKERS: dict[str, Callable[[bytes, int], bytes]] = {"gzip": unpack_gzip, "zstd": unpack_zstd}
both = pytest.mark.parametrize("encoding", ["gzip", "zstd"])


async def in_chunks(body: bytes, size: int = 64 * 1024) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


@both
@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 300_000])
def test_unpacks_what_was_packed(encoding: str, size: int) -> None:
    content = bytes(i * i % 251 for i in range(size))
    assert UNPACKERS[encoding](PACKERS[encoding](content), size) == content


@both
def test_several_members_are_one_body(encoding: str) -> None:
    packed = PACKERS[encoding](b"one ") + PACKERS[encoding](b"") + PACKERS[encoding](b"two")
    assert UNPACKERS[encoding](packed, 100) == b"one two"


@both
def test_one_byte_past_the_limit_is_refused(encoding: str) -> None:
    packed = PACKERS[encoding](b"x" * 1000)
    assert len(UNPACKERS[encoding](packed, 1000)) == 1000
    with pytest.raises(RequestTooLarge):
        UNPACKERS[encoding](packed, 999)


@both
def test_damaged_bodies_are_refused(encoding: str) -> None:
    packed = PACKERS[encoding](b"some text that is long enough to be cut" * 10)
    for damaged in (b"", packed[:3], packed[:-1], packed[:-5], packed + b"more", b"{}" + packed, packed + packed[:6]):
        with pytest.raises(InvalidRequest):
            UNPACKERS[encoding](damaged, 10_000)


@both
@pytest.mark.parametrize("size", [0, 1, 100])
def test_bodies_in_many_pieces_are_bounded(encoding: str, size: int) -> None:
    """Each piece costs little, and a few megabytes have room for hundreds of thousands of them."""
    packed = PACKERS[encoding](bytes(size))
    assert UNPACKERS[encoding](packed * MAX_FRAMES, size * MAX_FRAMES) == bytes(size * MAX_FRAMES)
    for pieces in (MAX_FRAMES + 1, 13 * MIB // len(packed)):
        began = time.monotonic()
        with pytest.raises(InvalidRequest):
            UNPACKERS[encoding](packed * pieces, 13 * MIB)
        assert time.monotonic() - began < 2


@both
def test_a_bomb_is_unpacked_no_further_than_its_limit(encoding: str) -> None:
    packer = zlib.compressobj(wbits=31) if encoding == "gzip" else zstandard.ZstdCompressor(level=19).compressobj()
    zeros = bytes(MIB)
    bomb = b"".join([packer.compress(zeros) for _ in range(64)]) + packer.flush()
    assert len(bomb) < MIB
    tracemalloc.start()
    try:
        with pytest.raises(RequestTooLarge):
            UNPACKERS[encoding](bomb, 2 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * MIB


def test_a_zstd_window_larger_than_any_body_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(InvalidRequest):
        unpack_zstd(packer.compress(b"tiny") + packer.flush(), 13 * MIB)


def test_a_zstd_frame_in_one_piece_may_be_as_large_as_the_limit() -> None:
    content = bytes(range(256)) * (12 * 4096)
    assert unpack_zstd(zstandard.ZstdCompressor(level=3).compress(content), 13 * MIB) == content


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZIP", "zstd", "identity", ""])
async def test_encodings_that_are_read(client: httpx.AsyncClient, triton: FakeTriton, encoding: str) -> None:
    body = json.dumps(NOUL).encode()
    pack = PACKERS.get(encoding.lower().removeprefix("x-"), bytes)
    response = await client.post("/v1/systemone", content=pack(body), headers={"content-encoding": encoding})
    assert response.status_code == 200
    assert triton.real_calls[-1].body == body


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, zstd", "gzip;q=1", "canary7261"])
async def test_encodings_that_are_not(client: httpx.AsyncClient, encoding: str) -> None:
    response = await client.post("/v1/systemone", json=NOUL, headers={"content-encoding": encoding})
    assert response.status_code == 415
    assert response.json()["detail"]["error_type"] == "invalid_request_error"
    assert "canary7261" not in response.text


@both
async def test_large_packed_bodies(client: httpx.AsyncClient, triton: FakeTriton, encoding: str) -> None:
    body = body_of(5 * MIB, noise=[i * i % 9973 for i in range(20_000)])
    packed = PACKERS[encoding](body)
    assert len(packed) > 8 * 1024
    response = await client.post("/v1/systemone", content=packed, headers={"content-encoding": encoding})
    assert response.status_code == 200
    assert triton.real_calls[-1].body == body


@both
async def test_a_bomb_over_http_is_413(client: httpx.AsyncClient, encoding: str) -> None:
    bomb = PACKERS[encoding](bytes(65 * MIB))
    response = await client.post("/v1/systemone", content=bomb, headers={"content-encoding": encoding})
    assert response.status_code == 413
    assert response.json()["detail"]["error_type"] == "request_too_large"


@both
async def test_a_body_that_does_not_unpack_is_400(client: httpx.AsyncClient, encoding: str) -> None:
    response = await client.post("/v1/systemone", json=NOUL, headers={"content-encoding": encoding})
    assert response.status_code == 400
    assert response.json()["detail"]["error_type"] == "invalid_request_error"


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/x-www-form-urlencoded", ""])
async def test_json_whatever_the_content_type(client: httpx.AsyncClient, content_type: str) -> None:
    response = await client.post(
        "/v1/systemone", content=json.dumps(NOUL).encode(), headers={"content-type": content_type}
    )
    assert response.status_code == 200
    assert_answer(NOUL, response.json())


class TestLimit:
    """The limit is the ensemble's own, told in MODEL_INFO."""

    LIMIT = 2000

    @pytest.fixture
    def ensemble(self) -> FakeEnsemble:
        return FakeEnsemble(max_body_bytes=self.LIMIT)

    @pytest.mark.parametrize("chunked", [False, True])
    async def test_at_the_limit_and_one_past_it(self, client: httpx.AsyncClient, chunked: bool) -> None:
        for size, status in ((self.LIMIT, 200), (self.LIMIT + 1, 413)):
            body = body_of(size)
            assert len(body) == size
            response = await client.post("/v1/systemone", content=in_chunks(body, 100) if chunked else body)
            assert response.status_code == status
        assert response.json()["detail"]["error_type"] == "request_too_large"
        assert str(self.LIMIT) in response.json()["detail"]["message"]

    @both
    async def test_counts_the_unpacked_bytes(self, client: httpx.AsyncClient, encoding: str) -> None:
        for size, status in ((self.LIMIT, 200), (self.LIMIT + 1, 413)):
            packed = PACKERS[encoding](body_of(size))
            response = await client.post("/v1/systemone", content=packed, headers={"content-encoding": encoding})
            assert response.status_code == status

    async def test_an_endless_body_is_stopped_early(self, client: httpx.AsyncClient) -> None:
        sent = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal sent
            # Ends at last, for the client to have its turn: long after the limit.
            while sent < 100 * self.LIMIT:
                sent += 100
                yield b"x" * 100

        response = await client.post("/v1/systemone", content=endless())
        assert response.status_code == 413
        assert response.headers["connection"] == "close"


async def test_o21_five_mebibytes_pass_and_sixty_five_do_not(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    body = body_of(5 * MIB)
    for content in (body, in_chunks(body)):
        response = await client.post("/v1/systemone", content=content)
        assert response.status_code == 200
        assert triton.real_calls[-1].body == body
    huge = body_of(65 * MIB)
    for content in (huge, in_chunks(huge)):
        response = await client.post("/v1/systemone", content=content)
        assert response.status_code == 413
        assert response.json()["detail"]["error_type"] == "request_too_large"
    assert (await client.post("/v1/systemone", json=NOUL)).status_code == 200


async def test_a_body_that_does_not_come_is_408(triton: FakeTriton) -> None:
    async def stalling() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(0.3)
        yield b"}"

    async with client_of(create_app(Settings(body_timeout_ms=100), triton)) as client:
        await until_ready(client)
        response = await client.post("/v1/systemone", content=stalling())
    assert response.status_code == 408
    assert response.json()["detail"]["error_type"] == "timeout_error"


@pytest.mark.parametrize("path", ROUTES)
async def test_a_byte_order_mark_is_no_part_of_a_body(client: httpx.AsyncClient, path: str) -> None:
    response = await client.post(path, content=codecs.BOM_UTF8 + json.dumps(ROUTES[path][0]).encode())
    assert response.status_code == 200
    assert "answers" in response.text
