"""One caller over HTTP/1.1: a connection that is kept, a clock around each request, and what `Server-Timing` says."""

from __future__ import annotations

import json
import socket
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httptools

TIMEOUT_S = 120.0
ROUTE = "/v1/systemone"
_HEAD = f"POST {ROUTE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ".encode()


@dataclass(frozen=True)
class Answer:
    """One answered request; times in milliseconds."""

    ms: float
    """From the first byte sent to the last one read."""
    timing: dict[str, float]
    """`Server-Timing`: queue, preprocess, compute, postprocess and total."""
    batch_size: int
    tokens: int

    @property
    def over_compute_ms(self) -> float:
        """What the caller waits for besides the model's compute."""
        return self.ms - self.timing["compute"]


class Caller:
    """Use as a context manager. With `keep_alive` False every request opens a connection of its own.

    A request leaves in one piece and the answer is read by uvicorn's own C parser, so that the clock holds little of
    the client: that of Python's `http.client` took as long as the server's.
    """

    def __init__(self, port: int, keep_alive: bool = True) -> None:
        self._port = port
        self._keep_alive = keep_alive
        self._connection: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def ask(self, body: bytes) -> Answer:
        """Raises RuntimeError for an answer that is not a 200."""
        request, response = b"%b%d\r\n\r\n%b" % (_HEAD, len(body), body), _Response()
        parser = httptools.HttpResponseParser(response)
        start = time.perf_counter()
        connection = self._connection or self._connect()
        connection.sendall(request)
        while not response.ended:
            piece = connection.recv(65536)
            if not piece:
                raise RuntimeError("the connection ended before the answer")
            parser.feed_data(piece)
        ms = (time.perf_counter() - start) * 1e3
        if not self._keep_alive:
            self._close()
        status, content = parser.get_status_code(), b"".join(response.body)
        if status != 200:
            raise RuntimeError(f"HTTP {status}: {content[:500].decode(errors='replace')}")
        timing = server_timing(response.headers.get(b"server-timing", b"").decode())
        batch_size = int(response.headers.get(b"x-batch-size", 1))
        return Answer(ms, timing, batch_size, json.loads(content)["usage"]["input_tokens"])

    def ask_all(self, bodies: Iterable[bytes]) -> list[Answer]:
        """One after another."""
        return [self.ask(body) for body in bodies]

    def _connect(self) -> socket.socket:
        self._connection = socket.create_connection(("127.0.0.1", self._port), timeout=TIMEOUT_S)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Response:
    """What the parser tells."""

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.body: list[bytes] = []
        self.ended = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, piece: bytes) -> None:
        self.body.append(piece)

    def on_message_complete(self) -> None:
        self.ended = True


def server_timing(header: str) -> dict[str, float]:
    """Milliseconds by name, of what has a duration."""
    parts = (part.strip().partition(";dur=") for part in header.split(","))
    return {name: float(value) for name, _, value in parts if value}


def percentile(values: Sequence[float], percent: float) -> float:
    """By linear interpolation between the two nearest values."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Count, mean and percentiles."""
    percentiles = {f"p{percent}": percentile(values, percent) for percent in (50, 90, 95, 99)}
    return {"count": len(values), "mean": statistics.fmean(values), **percentiles}
