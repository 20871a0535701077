"""The most resident memory of each process by the length of its inputs and by how many come at once.

Each row begins with the processes' peaks reset, and sends requests of one length, all at once; rows go from small to
large, since an allocator keeps what it once had. The state cache is off. On a CPU, in float32: how much more a token
takes is the measuring release's; what the published ones take on a card is computed by `python -m launch card`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from perf.client import Answer, Caller
from perf.load_data import body, long, text
from perf.side_by_side import table
from perf.stack import stack

TITLE = "Peak memory by length and batch"
ROWS = ((10, 1), (10, 16), (700, 1), (700, 8), (3_000, 1), (3_000, 4), (11_000, 1))
"""Words of the state, requests at once."""
QUICK_ROWS = ROWS[:2]


def measure(quick: bool) -> dict[str, Any]:
    """`start`: MiB by process before any request; `rows`: their peaks."""
    chance = random.Random(0)
    with stack({"SYSTEMONE_REQUEST_TIMEOUT_MS": "120000"}) as running:
        start, rows = running.peak_mib(), []
        for words, count in QUICK_ROWS if quick else ROWS:
            running.reset_peaks()
            answers = _at_once(
                running.http, [body(long(chance) | {"state": text(words, chance)}) for _ in range(count)]
            )
            rows.append(
                {
                    "tokens": max(answer.tokens for answer in answers),
                    "requests": count,
                    "largest_batch": max(answer.batch_size for answer in answers),
                    "peak_mib": running.peak_mib(),
                }
            )
    return {"start": start, "rows": rows}


def report(data: dict[str, Any]) -> str:
    names = list(data["start"])
    columns = ("tokens of a request", "requests at once", "in the largest batch", *(f"{name}, MiB" for name in names))
    cells = [("after the start", "", "", *_whole(data["start"], names))]
    cells += [
        (str(row["tokens"]), str(row["requests"]), str(row["largest_batch"]), *_whole(row["peak_mib"], names))
        for row in data["rows"]
    ]
    return f"Resident at the most, pages that processes share counted in each of them.\n\n{table(columns, cells)}"


def _whole(sizes: dict[str, float], names: Sequence[str]) -> list[str]:
    return [f"{sizes[name]:.0f}" for name in names]


def _at_once(port: int, bodies: Sequence[bytes]) -> list[Answer]:
    ready = Barrier(len(bodies))

    def one(data: bytes) -> Answer:
        with Caller(port) as caller:
            ready.wait()
            return caller.ask(data)

    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(one, bodies))
