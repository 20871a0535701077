"""100 short and 20 long requests together, with the planner and without it.

All are sent at once, each on a connection of its own, long and short ones shuffled. A long one is as long as the stack
allows; the limit is set low, so that the whole takes seconds on a CPU. What counts is a ratio: the p95 of the short
ones to the compute of one long request alone.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

from launch.serve import MODEL_REPOSITORY
from perf.client import Answer, Caller, percentile
from perf.first_come import write_repository
from perf.load_data import Request, body, long, short, text
from perf.side_by_side import table
from perf.stack import stack

TITLE = "Short requests among long ones"
TARGET = 3.0
MAX_LENGTH = 2048
SHORT, LONG = 100, 20
QUICK_SHORT, QUICK_LONG = 6, 1
TOO_MANY_WORDS = 3_000


def measure(quick: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return {
            "max_length": MAX_LENGTH,
            "planner": _run(MODEL_REPOSITORY, quick),
            "first come": _run(write_repository(Path(folder)), quick),
        }


def report(data: dict[str, Any]) -> str:
    columns = (
        "",
        "short p50, ms",
        "short p95, ms",
        "p95 in long forwards",
        "long p95, ms",
        "one long alone, ms",
        "all, s",
    )
    cells = [
        (
            name,
            run["short_ms"]["p50"],
            run["short_ms"]["p95"],
            run["short_ms"]["p95"] / run["long_alone_ms"],
            run["long_ms"]["p95"],
            run["long_alone_ms"],
            run["all_s"],
        )
        for name, run in ((name, data[name]) for name in ("planner", "first come"))
    ]
    run = data["planner"]
    return (
        f"{run['short']} short requests of {run['short_tokens']:.0f} tokens and {run['long']} long ones of "
        f"{run['long_tokens']:.0f}, all at once. Short p95 under {TARGET:.0f} long forwards is asked; short "
        f"ones ran in batches of up to {run['largest_batch']}.\n\n{table(columns, cells)}"
    )


def _run(repository: Path, quick: bool) -> dict[str, Any]:
    shorts, longs = (QUICK_SHORT, QUICK_LONG) if quick else (SHORT, LONG)
    settings = {
        "CLEF_MAX_LENGTH": str(MAX_LENGTH),
        "CLEF_OVERFLOW": "truncate",
        "SYSTEMONE_REQUEST_TIMEOUT_MS": "300000",
    }
    chance = random.Random(0)
    with stack(settings, repository=repository) as running:
        with Caller(running.http) as caller:
            caller.ask(body(short(chance)))
            alone = [caller.ask(body(_longest(chance))) for _ in range(3)]
        requests = [short(chance) for _ in range(shorts)] + [_longest(chance) for _ in range(longs)]
        answers = _all_at_once(running.http, requests, chance)
    short_ones, long_ones = answers[:shorts], answers[shorts:]
    return {
        "short": shorts,
        "long": longs,
        "short_tokens": statistics.median(answer.tokens for answer in short_ones),
        "long_tokens": statistics.median(answer.tokens for answer in long_ones),
        "long_alone_ms": statistics.median(answer.timing["compute"] for answer in alone),
        "short_ms": _percentiles(short_ones),
        "long_ms": _percentiles(long_ones),
        "largest_batch": max(answer.batch_size for answer in short_ones),
        "all_s": max(answer.ms for answer in answers) / 1e3,
    }


def _longest(chance: random.Random) -> Request:
    """As long as the stack allows: the rest of its state is cut."""
    return long(chance) | {"state": text(TOO_MANY_WORDS, chance)}


def _all_at_once(port: int, requests: Sequence[Request], chance: random.Random) -> list[Answer]:
    """The answers in the requests' order."""
    order = list(range(len(requests)))
    chance.shuffle(order)
    ready = Barrier(len(requests))

    def one(place: int) -> Answer:
        data = body(requests[place])
        with Caller(port) as caller:
            ready.wait()
            return caller.ask(data)

    with ThreadPoolExecutor(len(requests)) as pool:
        answers = dict(zip(order, pool.map(one, order), strict=True))
    return [answers[place] for place in range(len(requests))]


def _percentiles(answers: Sequence[Answer]) -> dict[str, float]:
    return {f"p{percent}": percentile([answer.ms for answer in answers], percent) for percent in (50, 95)}
