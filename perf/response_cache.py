"""Triton's own response cache for identical requests.

It belongs on the model step, whose inputs are all that its logits depend on. Triton hashes a request's tensors, and
neither its parameters nor its deadline: on the ensemble it would give a request that overrides a setting, or whose
caller's tier allows less, the answer to the same body under other settings.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

from launch.triton import TritonServer
from perf.client import Answer, Caller
from perf.load_data import body, short
from perf.side_by_side import table
from perf.stack import Stack, stack
from perf.triton_cache import CACHE_BYTES, cache_counts, cache_options, cached_repository

TITLE = "Triton's response cache"
REQUESTS = 30
QUICK_REQUESTS = 5


def measure(quick: bool) -> dict[str, Any]:
    """Milliseconds of new and of repeated requests, with the cache; of new ones without it."""
    count = QUICK_REQUESTS if quick else REQUESTS
    with stack() as running:
        without = _times(running, count, repeat=False)
    with tempfile.TemporaryDirectory() as folder:
        repository = cached_repository(Path(folder))
        with stack(
            repository=repository, triton_options=cache_options(TritonServer.find(os.environ.get("CLEF_TRITON")))
        ) as running:
            new = _times(running, count, repeat=False)
            repeated = _times(running, count, repeat=True)
            counts = cache_counts(running.ports.metrics)
    return {
        "requests": count,
        "cache_bytes": CACHE_BYTES,
        "counts": counts,
        "ms": {"no cache": without, "cache, new": new, "cache, seen before": repeated},
    }


def report(data: dict[str, Any]) -> str:
    cells = [(name, found["p50"], found["over_compute"]) for name, found in data["ms"].items()]
    counts = ", ".join(f"{value:.0f} {name}" for name, value in data["counts"].items())
    return (
        f"{data['requests']} short requests each, one at a time, on the model step with a cache of "
        f"{data['cache_bytes'] >> 20} MiB; Triton counted {counts}.\n\n"
        f"{table(('', 'HTTP p50, ms', 'of it not compute, ms'), cells)}\n\n"
        "An answer out of the cache says the compute time and the batch size of the first one."
    )


def _times(running: Stack, count: int, repeat: bool) -> dict[str, float]:
    chance = random.Random(1 if repeat else 2)
    with Caller(running.http) as caller:
        if repeat:
            same = body(short(chance))
            caller.ask(same)
            answers = [caller.ask(same) for _ in range(count)]
        else:
            caller.ask(body(short(chance)))
            answers = [caller.ask(body(short(chance))) for _ in range(count)]
    return {"p50": statistics.median(answer.ms for answer in answers), "over_compute": _over(answers)}


def _over(answers: list[Answer]) -> float:
    return statistics.median(answer.over_compute_ms for answer in answers)
