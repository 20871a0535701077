"""Triton's response cache, `CLEF_RESPONSE_CACHE_BYTES`: what an identical request costs with it, and any other one.

Two stacks, one of them with the cache, are asked the same in turns, so that a slower minute of the machine hits both;
which is asked first changes with each. Every body is asked once of the first stack, and twice of the second, whose
answers are new and then kept ones.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping
from typing import Any

import tritonclient.grpc as triton_grpc

from frontend.kserve import CACHED
from perf.client import Caller
from perf.load_data import Request, body, short, with_images
from perf.side_by_side import table
from perf.stack import Stack, stack

TITLE = "Triton's response cache"
CACHE_BYTES = 64 * 2**20
REQUESTS = 60
QUICK_REQUESTS = 5
WARM_UP = 10
PADDING_BYTES = 4_000_000
COLUMNS = ("without", "with, new", "with, kept")


def measure(quick: bool) -> dict[str, Any]:
    """Milliseconds over HTTP, and what Triton counted."""
    count = QUICK_REQUESTS if quick else REQUESTS
    with stack() as off, stack({"CLEF_RESPONSE_CACHE_BYTES": str(CACHE_BYTES)}) as on:
        kinds = {name: _turns(off, on, seed, count) for seed, name in enumerate(_KINDS)}
        counts = _counts(on)
    return {"requests": count, "cache_bytes": CACHE_BYTES, "kinds": kinds, "counts": counts}


def report(data: dict[str, Any]) -> str:
    counts = data["counts"]
    rows = [
        (name, kind["body_bytes"] / 1e3, *(kind["p50_ms"][column] for column in COLUMNS), kind["on_a_new_one_ms"])
        for name, kind in data["kinds"].items()
    ]
    columns = ("request", "kB", *(f"{column}: p50, ms" for column in COLUMNS), "median difference of a new one, ms")
    return (
        f"`CLEF_RESPONSE_CACHE_BYTES={data['cache_bytes']}` beside none: {data['requests']} requests a kind, each "
        f"body once without the cache, and with it new and then again. Triton counted {counts['hits']} hits and "
        f"{counts['misses']} misses.\n\n{table(columns, rows)}"
    )


def _picture(chance: random.Random) -> Request:
    return with_images(1, 512, chance)


def _padded(chance: random.Random) -> Request:
    return short(chance) | {"padding": "x" * PADDING_BYTES}


_KINDS = {"short": short, "with a picture": _picture, "with a field that nobody reads": _padded}


def _turns(off: Stack, on: Stack, seed: int, count: int) -> dict[str, Any]:
    chance, kind = random.Random(seed), list(_KINDS.values())[seed]
    times: Mapping[str, list[float]] = {column: [] for column in COLUMNS}
    with Caller(off.http) as without, Caller(on.http) as with_it:
        turns = list(zip(COLUMNS, (without, with_it, with_it), strict=True))
        for turn in range(WARM_UP + count):
            asked = body(kind(chance))
            for column, caller in turns if turn % 2 else (*turns[1:], turns[0]):
                ms = caller.ask(asked).ms
                if turn >= WARM_UP:
                    times[column].append(ms)
    more = [new - plain for plain, new in zip(times["without"], times["with, new"], strict=True)]
    return {
        "body_bytes": len(asked),
        "p50_ms": {column: statistics.median(values) for column, values in times.items()},
        "on_a_new_one_ms": statistics.median(more),
    }


def _counts(running: Stack) -> dict[str, int]:
    with triton_grpc.InferenceServerClient(f"127.0.0.1:{running.ports.grpc}") as client:
        stats = client.get_inference_statistics(CACHED).model_stats[0].inference_stats
        return {"hits": stats.cache_hit.count, "misses": stats.cache_miss.count}
