"""HEAD on every route that takes GET."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest
from fastapi import FastAPI

from frontend.app import create_app
from frontend.settings import Settings
from tests.frontend.fakes import FakeEnsemble, FakeTriton
from tests.frontend.processes import Frontend
from tests.frontend.running import client_of

PATHS = [
    "/",
    "/health",
    "/healthz",
    "/metrics",
    "/v1/models",
    "/api/tags",
    "/api/ps",
    "/api/version",
    "/api/presets",
    "/openapi.json",
    "/docs",
]
# Its numbers move with every request.
MOVES = {"/metrics"}


@pytest.mark.parametrize("path", PATHS)
async def test_is_get_without_its_body(client: httpx.AsyncClient, path: str) -> None:
    get, head = await client.get(path), await client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert get.content
    assert head.headers["content-type"] == get.headers["content-type"]
    if path not in MOVES:
        assert int(head.headers["content-length"]) == len(get.content)


async def test_the_list_of_paths_is_whole(app: FastAPI, client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert {path for path, operations in document["paths"].items() if "get" in operations} < set(PATHS)


async def test_the_document_has_a_head_for_each_get_and_no_other(app: FastAPI) -> None:
    for operations in app.openapi()["paths"].values():
        assert ("get" in operations) == ("head" in operations)
        if "head" in operations:
            assert operations["head"]["responses"].keys() == operations["get"]["responses"].keys()
            assert not any("content" in response for response in operations["head"]["responses"].values())


async def test_a_failure_has_no_body_either(ensemble: FakeEnsemble) -> None:
    async with client_of(create_app(Settings(), FakeTriton(ensemble, up=False))) as client:
        for path in ("/health", "/v1/models"):
            response = await client.head(path)
            assert (response.status_code, response.content) == (503, b"")


async def test_where_get_is_refused_so_is_head(client: httpx.AsyncClient) -> None:
    for path, status in (("/v1/systemone", 405), ("/none", 404)):
        response = await client.head(path)
        assert (response.status_code, response.content) == (status, b"")


async def test_the_log_says_which_it_was(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "frontend.access"):
        await client.head("/v1/models")
    fields = caplog.records[-1].fields  # type: ignore[attr-defined]
    assert (fields["method"], fields["route"], fields["status"]) == ("HEAD", "/v1/models", 200)


async def test_over_a_socket_the_connection_lives_on(running: Frontend) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    try:
        for _ in range(2):
            writer.write(b"HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n")
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            assert head.startswith(b"HTTP/1.1 200 ") and b"content-length: " in head
        writer.write(b"GET /api/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 200 ")
    finally:
        writer.close()
