"""Triton's own response cache for identical requests: what it would save, and why it is not offered.

Triton hashes a request's tensors and nothing else. On the model step these are all that the logits depend on, but
Triton keeps a failed response too, as an answer without tensors: one request that came too late, or found the step
full, would fail for everybody who asks the same. On the ensemble it keeps no failures, but knows neither a request's
parameters (overrides, a tier's limits, truncation) nor which outputs were asked for, and takes no answer that has an
output of no bytes, as the image grid of a request without images is. What of this holds is tried out here.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

import tritonclient.grpc as triton_grpc

from launch.triton import TritonServer
from perf.client import Answer, Caller
from perf.load_data import body, image, short
from perf.side_by_side import table
from perf.stack import Stack, stack
from perf.triton_cache import (
    CACHE_BYTES,
    ENSEMBLE,
    STEP,
    cache_counts,
    cache_options,
    cached_repository,
    ignores_parameters,
    keeps_errors,
)

TITLE = "Triton's response cache"
REQUESTS = 30
QUICK_REQUESTS = 5


def measure(quick: bool) -> dict[str, Any]:
    """Milliseconds of new and of repeated requests, and what the cache keeps."""
    count = QUICK_REQUESTS if quick else REQUESTS
    options = cache_options(TritonServer.find(os.environ.get("CLEF_TRITON")))
    with tempfile.TemporaryDirectory() as name:
        step = cached_repository(Path(name) / "step", STEP)
        with stack(repository=step, triton_options=options) as running:
            ms = {"new": _p50(_new(running, count)), "seen before": _p50(_repeated(running, count))}
            counts = cache_counts(running.ports.metrics, STEP)
            with triton_grpc.InferenceServerClient(f"127.0.0.1:{running.ports.grpc}") as client:
                kept = keeps_errors(client, body(short(random.Random(3))))
        ensemble = cached_repository(Path(name) / "ensemble", ENSEMBLE)
        with stack(repository=ensemble, triton_options=options) as running:
            _repeated(running, QUICK_REQUESTS)
            of_ensemble = cache_counts(running.ports.metrics, ENSEMBLE)
            with triton_grpc.InferenceServerClient(f"127.0.0.1:{running.ports.grpc}") as client:
                ignored = ignores_parameters(client, body(image(random.Random(4))))
    return {
        "requests": count,
        "cache_bytes": CACHE_BYTES,
        "ms": ms,
        "counts": counts,
        "keeps_errors": kept,
        "repeated_on_ensemble": QUICK_REQUESTS,
        "ensemble_counts": of_ensemble,
        "ensemble_ignores_parameters": ignored,
    }


def report(data: dict[str, Any]) -> str:
    counts, of_ensemble = data["counts"], data["ensemble_counts"]
    kept, ignored = (_yes(data[name]) for name in ("keeps_errors", "ensemble_ignores_parameters"))
    return (
        f"Not offered, as it is; this is what it would save. {data['requests']} short requests each, one at a time, on "
        f"the model step with a cache of {data['cache_bytes'] >> 20} MiB, of which Triton counted {counts['hits']:.0f} "
        f"hits and {counts['misses']:.0f} misses:\n\n{table(('', 'HTTP p50, ms'), list(data['ms'].items()))}\n\n"
        f"Whether a request that failed once is answered without tensors from then on: {kept}. On the ensemble "
        f"{data['repeated_on_ensemble']} repeated requests without images were {of_ensemble['hits']:.0f} hits; whether "
        f"one with an image, seen before, is answered though a parameter allows none: {ignored}."
    )


def _yes(found: bool) -> str:
    return "yes" if found else "**no**, other than what this section is written for"


def _new(running: Stack, count: int) -> list[Answer]:
    chance = random.Random(2)
    with Caller(running.http) as caller:
        caller.ask(body(short(chance)))
        return caller.ask_all(body(short(chance)) for _ in range(count))


def _repeated(running: Stack, count: int) -> list[Answer]:
    same = body(short(random.Random(1)))
    with Caller(running.http) as caller:
        caller.ask(same)
        return caller.ask_all(same for _ in range(count))


def _p50(answers: list[Answer]) -> float:
    return statistics.median(answer.ms for answer in answers)
