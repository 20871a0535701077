"""The middleware alone, with an app that refuses before it reads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from frontend import lingering
from frontend.lingering import LingeringClose


class Exchange:
    """One request whose body arrives message by message, and what was sent back."""

    def __init__(self, *chunks: bytes, ends: bool = True) -> None:
        self.left = [
            {"type": "http.request", "body": chunk, "more_body": not ends or index < len(chunks) - 1}
            for index, chunk in enumerate(chunks)
        ]
        self.sent: list[dict[str, Any]] = []
        self.read = 0

    async def receive(self) -> dict[str, Any]:
        if not self.left:
            await asyncio.Event().wait()
        self.read += 1
        return self.left.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


async def read_then_answer(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await refuse(scope, receive, send)


CHUNKED = {"type": "http", "headers": [(b"transfer-encoding", b"chunked")]}
CLOSE = (b"connection", b"close")


async def test_the_answer_is_out_before_the_rest_is_read() -> None:
    exchange = Exchange(b"a", b"b", b"c")
    await LingeringClose(refuse)(CHUNKED, exchange.receive, exchange.send)
    start, body, end = exchange.sent
    assert CLOSE in start["headers"]
    assert (body["body"], body["more_body"]) == (b"no", True)
    assert (end["body"], end["more_body"]) == (b"", False)
    assert exchange.read == 3


async def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "LINGER_S", 0.05)
    exchange = Exchange(b"a", b"b", ends=False)
    await asyncio.wait_for(LingeringClose(refuse)(CHUNKED, exchange.receive, exchange.send), 5)
    assert exchange.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


@pytest.mark.parametrize(
    ("app", "scope"),
    [
        (read_then_answer, CHUNKED),
        (read_then_answer, {"type": "http", "headers": [(b"content-length", b"3")]}),
        (refuse, {"type": "http", "headers": []}),
        (refuse, {"type": "http", "headers": [(b"content-length", b"0")]}),
    ],
)
async def test_nothing_changes_where_nothing_is_left(app: Any, scope: Any) -> None:
    exchange = Exchange(b"abc")
    await LingeringClose(app)(scope, exchange.receive, exchange.send)
    start, body = exchange.sent
    assert CLOSE not in start["headers"]
    assert body == {"type": "http.response.body", "body": b"no"}


async def test_a_client_that_left_is_not_waited_for() -> None:
    exchange = Exchange()
    exchange.left = [{"type": "http.disconnect"}]
    await asyncio.wait_for(LingeringClose(refuse)(CHUNKED, exchange.receive, exchange.send), 5)
    assert exchange.sent[-1]["more_body"] is False
