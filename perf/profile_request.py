"""One request through all steps: where its time goes between the caller and the model, and what each process spends.

Times of the first and the last step are Triton's own statistics over lone requests, beside the steps' own clocks: the
difference is what Triton and its Python backend take to bring tensors in and out. The model step answers after its
`execute` has returned, so that Triton's statistics say little of it. CPU time is of each process, a request. The
frontend's functions are timed by cProfile, on the app itself with a Triton that answers at once.
"""

from __future__ import annotations

import json
import statistics
import urllib.request
from typing import Any

from perf.client import Caller
from perf.frontend_profile import functions
from perf.load_data import shorts
from perf.side_by_side import table
from perf.stack import Stack, stack

TITLE = "One request through all steps"
WARM_UP = 20
COUNT = 100
QUICK_COUNT = 10
FIRST, LAST = "clef_preprocess", "clef_postprocess"
PARTS = ("queue", "compute_input", "compute_infer", "compute_output")
_HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def measure(quick: bool) -> dict[str, Any]:
    """Milliseconds a request; `triton` by step and part, `own` by the steps' clocks, `cpu` by process."""
    count = QUICK_COUNT if quick else COUNT
    with stack() as running, Caller(running.http) as caller:
        caller.ask_all(shorts(WARM_UP, seed=1))
        before, cpu_before = _statistics(running), running.cpu_s()
        answers = caller.ask_all(shorts(count))
        after, cpu_after = _statistics(running), running.cpu_s()
    triton = {model: _difference(before[model], after[model]) for model in after}
    own = {step: _mean([answer.timing[step.removeprefix("clef_")] for answer in answers]) for step in (FIRST, LAST)}
    return {
        "requests": count,
        "http_ms": _mean([answer.ms for answer in answers]),
        "total_ms": _mean([answer.timing["total"] for answer in answers]),
        "triton": triton,
        "own": own,
        "model": {part: _mean([answer.timing[part] for answer in answers]) for part in ("queue", "compute")},
        "cpu": {name: (cpu_after[name] - cpu_before[name]) / count * 1e3 for name in cpu_after},
        "functions": functions(count),
    }


def report(data: dict[str, Any]) -> str:
    triton, own, model = data["triton"], data["own"], data["model"]
    steps = [
        (step, *(triton[step][part] for part in PARTS), ms, triton[step]["success"] - ms) for step, ms in own.items()
    ]
    columns = (
        "step",
        "queued, ms",
        "tensors in, ms",
        "execute, ms",
        "tensors out, ms",
        "own clock, ms",
        "around it, ms",
    )
    ensemble, inside = triton["clef"]["success"], sum(own.values()) + sum(model.values())
    way = [
        ("the caller and HTTP", data["http_ms"] - data["total_ms"]),
        ("the frontend and gRPC", data["total_ms"] - ensemble),
        ("Triton and its Python backend around the steps", ensemble - inside),
        ("the steps themselves, the model's compute left out", inside - model["compute"]),
    ]
    cpu = sorted(data["cpu"].items(), key=lambda item: -item[1])
    calls = [(entry["function"], entry["own_us"], entry["cumulative_us"]) for entry in data["functions"]["hottest"]]
    return (
        f"Means over {data['requests']} short requests, one after another; HTTP {data['http_ms']:.2f} ms, of which the "
        f"model computes {model['compute']:.2f} ms.\n\n{table(('where', 'ms'), way)}\n\n"
        f"Triton's statistics of the steps beside their own clocks:\n\n{table(columns, steps)}\n\n"
        f"CPU of each process, a request:\n\n{table(('process', 'CPU ms'), cpu)}\n\n"
        f"The frontend alone, with a Triton that answers at once: {data['functions']['call_us']:.0f} µs a request. Its "
        f"hottest functions under cProfile, which makes everything slower:\n\n"
        f"{table(('function', 'its own, µs', 'with what it calls, µs'), calls)}"
    )


def _statistics(running: Stack) -> dict[str, dict[str, dict[str, int]]]:
    """Requests and nanoseconds that Triton has counted since its start, by model and part."""
    with _HTTP.open(f"http://127.0.0.1:{running.ports.http}/v2/models/stats", timeout=10) as response:
        models = json.load(response)["model_stats"]
    return {model["name"]: model["inference_stats"] for model in models}


def _difference(before: dict[str, dict[str, int]], after: dict[str, dict[str, int]]) -> dict[str, float]:
    """Mean milliseconds a request between two readings; the frontend's own questions are among the requests."""
    return {
        part: (after[part]["ns"] - before[part]["ns"]) / (after[part]["count"] - before[part]["count"]) / 1e6
        for part in ("success", *PARTS)
        if after[part]["count"] > before[part]["count"]
    }


def _mean(values: list[float]) -> float:
    return statistics.fmean(values)
