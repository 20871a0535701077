"""100 short and 20 long requests together, with the planner and without it.

Each has a connection of its own, long and short ones shuffled. A long one is as long as the stack allows; the limit is
set low, so that the whole takes seconds on a CPU. What counts is a ratio: the p95 of the short ones to the compute of
one long request alone. They come in two ways: over time, at random moments, where computing them one by one takes
`BUSY` of it; and all at once, where the short ones alone make each other wait for what all of them compute.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from launch.serve import MODEL_REPOSITORY
from perf.client import Answer, Caller, percentile
from perf.first_come import write_repository
from perf.load_data import Request, body, long, short, text
from perf.side_by_side import table
from perf.stack import stack

TITLE = "Short requests among long ones"
TARGET = 3.0
BUSY = 0.8
MAX_LENGTH = 2048
SHORT, LONG = 100, 20
QUICK_SHORT, QUICK_LONG = 6, 1
TOO_MANY_WORDS = 3_000
ALONE = 5
LEAD_S = 0.5
"""Until every request has its thread."""
OVER_TIME, AT_ONCE = "over time", "at once"
AT_ONCE_S = 0.01


def measure(quick: bool) -> dict[str, Any]:
    planner = _run(MODEL_REPOSITORY, quick)
    with tempfile.TemporaryDirectory() as folder:
        first_come = _run(write_repository(Path(folder)), quick, planner["seconds"])
    return {"max_length": MAX_LENGTH, "planner": planner, "first come": first_come}


def report(data: dict[str, Any]) -> str:
    columns = ("", "", "short p50, ms", "short p95, ms", "in long forwards", "long p95, ms", "largest batch")
    cells = [
        (
            name,
            way,
            run[way]["short_ms"]["p50"],
            run[way]["short_ms"]["p95"],
            run[way]["short_ms"]["p95"] / run["long_alone_ms"],
            run[way]["long_ms"]["p95"],
            run[way]["largest_batch"],
        )
        for way in (OVER_TIME, AT_ONCE)
        for name, run in ((name, data[name]) for name in ("planner", "first come"))
    ]
    run = data["planner"]
    together = run["short"] * run["short_alone_ms"]
    return (
        f"{run['short']} short requests of {run['short_tokens']:.0f} tokens and {run['long']} long ones of "
        f"{run['long_tokens']:.0f}. Alone a short one computes for {run['short_alone_ms']:.0f} ms and a long one for "
        f"{run['long_alone_ms']:.0f} ms; a short p95 under {TARGET:.0f} long forwards is asked. They come over "
        f"{run['seconds']:.0f} s at random, of which computing them one by one takes {BUSY:.0%}, and then all at once, "
        f"where the short ones alone, one after another, are {together / run['long_alone_ms']:.0f} long forwards.\n\n"
        f"{table(columns, cells)}"
    )


def _run(repository: Path, quick: bool, seconds: float | None = None) -> dict[str, Any]:
    """`seconds`: over which the requests come; None: by what they compute for here."""
    shorts, longs = (QUICK_SHORT, QUICK_LONG) if quick else (SHORT, LONG)
    settings = {
        "CLEF_MAX_LENGTH": str(MAX_LENGTH),
        "CLEF_OVERFLOW": "truncate",
        "SYSTEMONE_REQUEST_TIMEOUT_MS": "300000",
    }
    chance = random.Random(0)
    with stack(settings, repository=repository) as running:
        with Caller(running.http) as caller:
            short_alone = _compute_ms(caller, [short(chance) for _ in range(ALONE)])
            long_alone = _compute_ms(caller, [_longest(chance) for _ in range(ALONE)])
        requests = [short(chance) for _ in range(shorts)] + [_longest(chance) for _ in range(longs)]
        seconds = seconds or (shorts * short_alone + longs * long_alone) / BUSY / 1e3
        over_time = _ask(running.http, requests, [chance.uniform(0, seconds) for _ in requests])
        at_once = _ask(running.http, requests, [chance.uniform(0, AT_ONCE_S) for _ in requests])
    return {
        "short": shorts,
        "long": longs,
        "seconds": seconds,
        "short_tokens": statistics.median(answer.tokens for answer in at_once[:shorts]),
        "long_tokens": statistics.median(answer.tokens for answer in at_once[shorts:]),
        "short_alone_ms": short_alone,
        "long_alone_ms": long_alone,
        OVER_TIME: _told(over_time, shorts),
        AT_ONCE: _told(at_once, shorts),
    }


def _told(answers: Sequence[Answer], shorts: int) -> dict[str, Any]:
    return {
        "short_ms": _percentiles(answers[:shorts]),
        "long_ms": _percentiles(answers[shorts:]),
        "largest_batch": max(answer.batch_size for answer in answers[:shorts]),
    }


def _compute_ms(caller: Caller, requests: Sequence[Request]) -> float:
    caller.ask(body(requests[0]))
    return statistics.median(caller.ask(body(request)).timing["compute"] for request in requests)


def _longest(chance: random.Random) -> Request:
    """As long as the stack allows: the rest of its state is cut."""
    return long(chance) | {"state": text(TOO_MANY_WORDS, chance)}


def _ask(port: int, requests: Sequence[Request], moments: Sequence[float]) -> list[Answer]:
    """Ask each request at its moment, in seconds from now on. The answers are in the requests' order."""
    bodies = [body(request) for request in requests]
    began = time.monotonic() + LEAD_S

    def one(place: int) -> Answer:
        with Caller(port) as caller:
            time.sleep(max(0.0, began + moments[place] - time.monotonic()))
            return caller.ask(bodies[place])

    with ThreadPoolExecutor(len(requests)) as pool:
        order = sorted(range(len(requests)), key=moments.__getitem__)
        answers = dict(zip(order, pool.map(one, order), strict=True))
    return [answers[place] for place in range(len(requests))]


def _percentiles(answers: Sequence[Answer]) -> dict[str, float]:
    return {f"p{percent}": percentile([answer.ms for answer in answers], percent) for percent in (50, 95)}
