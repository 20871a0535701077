"""One caller over HTTP/1.1: a connection that is kept, a clock around each request, and what `Server-Timing` says."""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

TIMEOUT_S = 120.0
ROUTE = "/v1/systemone"


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
    """Use as a context manager. With `keep_alive` False every request opens a connection of its own."""

    def __init__(self, port: int, keep_alive: bool = True) -> None:
        self._keep_alive = keep_alive
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def ask(self, body: bytes) -> Answer:
        """Raises RuntimeError for an answer that is not a 200."""
        start = time.perf_counter()
        self._connection.request("POST", ROUTE, body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        content = response.read()
        ms = (time.perf_counter() - start) * 1e3
        if not self._keep_alive:
            self._connection.close()
        if response.status != 200:
            raise RuntimeError(f"HTTP {response.status}: {content[:500].decode(errors='replace')}")
        timing = server_timing(response.headers.get("server-timing", ""))
        batch_size = int(response.headers.get("x-batch-size", 1))
        return Answer(ms, timing, batch_size, json.loads(content)["usage"]["input_tokens"])

    def ask_all(self, bodies: Iterable[bytes]) -> list[Answer]:
        """One after another."""
        return [self.ask(body) for body in bodies]


def server_timing(header: str) -> dict[str, float]:
    """Milliseconds by name."""
    parts = (part.strip().partition(";dur=") for part in header.split(",") if part.strip())
    return {name: float(value) for name, _, value in parts}


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
