"""A client that leaves, before its body is there or while it is answered: no error of ours, in every dialect."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from frontend.app import create_app
from frontend.settings import Settings
from tests.frontend.fakes import FakeTriton
from tests.frontend.routes import ROUTES
from tests.frontend.running import NOUL, client_of, until_ready

MULTIPART = (
    b'--b\r\ncontent-disposition: form-data; name="request"\r\ncontent-type: application/json\r\n\r\n'
    + json.dumps(NOUL).encode()
    + b"\r\n--b--\r\n"
)
BODIES: dict[str, tuple[str, str, bytes]] = {
    **{path: (path, "application/json", json.dumps(body).encode()) for path, (body, _) in ROUTES.items()},
    "many items": ("/v1/systemone/batch", "application/json", json.dumps([NOUL] * 20).encode()),
    "multipart": ("/v1/systemone", "multipart/form-data; boundary=b", MULTIPART),
}
every_body = pytest.mark.parametrize("name", BODIES)


async def leave(app: Any, triton: FakeTriton, name: str, messages: Sequence[dict[str, Any]]) -> list[Any]:
    """What was sent to a client of `app` that sends these messages and leaves, when the model has been asked where
    the last of them ends a body.
    """
    path, content_type, body = BODIES[name]
    coming = list(messages)
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if coming:
            return coming.pop(0)
        while not (triton.real_calls or messages[-1]["more_body"]):
            await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())],
        "client": ("192.0.2.1", 1),
        "server": ("frontend", 80),
    }
    async with asyncio.timeout(10):
        await app(scope, receive, send)
    return sent


@asynccontextmanager
async def slow_app(triton: FakeTriton) -> Any:
    app = create_app(Settings(health_interval_ms=60_000), triton)
    async with client_of(app) as client:
        await until_ready(client)
        triton.latency_s = 20.0
        yield app


def access_statuses(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [record.fields["status"] for record in caplog.records if record.name == "frontend.access"]  # type: ignore[attr-defined]


def assert_told(caplog: pytest.LogCaptureFixture) -> None:
    assert access_statuses(caplog)[-1] == 499
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@every_body
async def test_a_client_that_leaves_before_its_answer(
    triton: FakeTriton, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    body = {"type": "http.request", "body": BODIES[name][2], "more_body": False}
    async with slow_app(triton) as app:
        caplog.clear()
        with caplog.at_level(logging.INFO):
            assert await leave(app, triton, name, [body]) == []
            # What was given up has ended when the loop has gone round.
            await asyncio.sleep(0.05)
    assert triton.real_calls
    assert_told(caplog)


@every_body
async def test_a_client_that_leaves_within_its_body(
    triton: FakeTriton, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    body = {"type": "http.request", "body": BODIES[name][2][:10], "more_body": True}
    async with slow_app(triton) as app:
        caplog.clear()
        with caplog.at_level(logging.INFO):
            assert await leave(app, triton, name, [body]) == []
    assert triton.real_calls == []
    assert_told(caplog)
