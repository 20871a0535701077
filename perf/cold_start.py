"""The first request of each shape after «ready», beside the same shape warm: the warm-up's worth.

A stack that has just said that it is ready is sent one request of each length, and then bursts of each size; then the
same again, several times. A first time is asked to take less than three warm ones.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from perf.client import Caller
from perf.load_data import body, short, text
from perf.side_by_side import table
from perf.stack import stack

TITLE = "The first request of each shape"
MAX_LENGTH = 4096
WORDS = (1, 40, 250, 900)
BURSTS = (1, 2, 4, 8, 16)
WARM = 3
TARGET = 3.0


def measure(quick: bool) -> list[dict[str, Any]]:
    """One row a shape: the first time and the warm ones, in milliseconds."""
    words, bursts = (WORDS[:2], BURSTS[:2]) if quick else (WORDS, BURSTS)
    settings = {"CLEF_MAX_LENGTH": f"{MAX_LENGTH}", "CLEF_OVERFLOW": "truncate"}
    chance = random.Random(0)
    with stack(settings) as running, Caller(running.http) as caller:

        def alone(count: int) -> Callable[[], float]:
            return lambda: caller.ask(body(short(chance) | {"state": text(count, chance)})).ms

        def burst(size: int) -> Callable[[], float]:
            return lambda: _burst(running.http, [body(short(chance)) for _ in range(size)])

        shapes = {f"a state of {count} words": alone(count) for count in words}
        shapes[f"the most tokens, {MAX_LENGTH}"] = alone(MAX_LENGTH)
        shapes |= {f"{size} short ones at once": burst(size) for size in bursts}
        first = {name: shape() for name, shape in shapes.items()}
        warm = {name: [shape() for _ in range(WARM)] for name, shape in shapes.items()}
    return [{"shape": name, "first_ms": first[name], "warm_ms": warm[name]} for name in shapes]


def report(data: list[dict[str, Any]]) -> str:
    cells = []
    for row in data:
        warm = statistics.median(row["warm_ms"])
        cells.append((row["shape"], row["first_ms"], warm, row["first_ms"] / warm))
    return f"Asked: under {TARGET:.0f}.\n\n{table(('shape', 'first, ms', 'warm, ms', 'first to warm'), cells)}"


def _burst(port: int, bodies: list[bytes]) -> float:
    """Milliseconds until the last answer."""

    def one(data: bytes) -> None:
        with Caller(port) as caller:
            caller.ask(data)

    with ThreadPoolExecutor(len(bodies)) as pool:
        start = time.perf_counter()
        list(pool.map(one, bodies))
        return (time.perf_counter() - start) * 1e3
