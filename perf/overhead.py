"""What one lone request costs besides the model: HTTP p50 at concurrency 1 less the model step's compute.

Every request brings its own `Server-Timing`, so that the difference is taken request by request. The connection is
kept, as every client library keeps it; a new one for each request is measured beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from perf.client import Answer, Caller, percentile
from perf.load_data import shorts
from perf.side_by_side import table
from perf.stack import stack

TITLE = "One request at a time: what is not the model"
TARGET_MS = 4.0
COUNT = 200
WARM_UP = 20
STEPS = ("preprocess", "queue", "postprocess")


def measure(quick: bool) -> dict[str, Any]:
    """Milliseconds, medians over requests; every part is of the requests with a kept connection."""
    count = 20 if quick else COUNT
    with stack() as running:
        with Caller(running.http) as caller:
            caller.ask_all(shorts(WARM_UP, seed=1))
            kept = caller.ask_all(shorts(count))
        with Caller(running.http, keep_alive=False) as caller:
            anew = caller.ask_all(shorts(count // 4, seed=2))
    return {
        "requests": count,
        "tokens": statistics.median(answer.tokens for answer in kept),
        "compute_ms": statistics.median(answer.timing["compute"] for answer in kept),
        "http_p50_ms": statistics.median(answer.ms for answer in kept),
        "over_compute_ms": _over_compute(kept),
        "over_compute_new_connection_ms": _over_compute(anew),
        "parts_ms": parts(kept),
    }


def parts(answers: Sequence[Answer]) -> dict[str, float]:
    """The medians of what adds up, request by request, to its time less its compute."""
    each = {step: [answer.timing[step] for answer in answers] for step in STEPS}
    inside = [sum(answer.timing[name] for name in (*STEPS, "compute")) for answer in answers]
    each["frontend, gRPC and Triton between the steps"] = [
        answer.timing["total"] - steps for answer, steps in zip(answers, inside, strict=True)
    ]
    each["HTTP: parsing, sockets, the client"] = [answer.ms - answer.timing["total"] for answer in answers]
    return {name: statistics.median(values) for name, values in each.items()}


def report(data: dict[str, Any]) -> str:
    total = sum(data["parts_ms"].values())
    cells = [(name, ms, f"{ms / total:.0%}") for name, ms in data["parts_ms"].items()]
    over, anew = data["over_compute_ms"], data["over_compute_new_connection_ms"]
    return (
        f"{data['requests']} short requests of {data['tokens']:.0f} tokens, one after another on one connection. HTTP "
        f"p50 {data['http_p50_ms']:.1f} ms, of which the model computes {data['compute_ms']:.1f} ms.\n\n"
        f"**p50 less compute: {over['p50']:.2f} ms** (at most {TARGET_MS:.0f} asked; p95 {over['p95']:.2f} ms). With a "
        f"new connection for each request {anew['p50']:.2f} ms.\n\n"
        f"{table(('part', 'p50, ms', 'share'), cells)}"
    )


def _over_compute(answers: Sequence[Answer]) -> dict[str, float]:
    values = [answer.over_compute_ms for answer in answers]
    return {f"p{percent}": percentile(values, percent) for percent in (50, 95)}
