"""Latency against throughput, over gRPC by perf_analyzer and over HTTP by wrk, with a realistic mix of requests.

Rates are shares of the throughput that the same run found at the highest concurrency, so that they mean the same on
every machine. Every line is kept in `sweep_grpc.csv` and `sweep_http.csv`. perf_analyzer divides what it sent at a rate
by a window that is longer than the sending, so that plots show such a line at the rate that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from perf import wrk
from perf.analyzer import Analyzer
from perf.load_data import mix
from perf.side_by_side import table
from perf.stack import Stack, stack
from perf.store import save_csv

TITLE = "Latency against throughput"
CONCURRENCIES = (1, 2, 4, 8, 16, 32)
RATES = (0.3, 0.5, 0.7, 0.9)
BODIES = 200
SECONDS = 4.0
QUICK_SECONDS = 2.0
FEWEST_REQUESTS = 20

Row = dict[str, Any]
Load = Callable[[str, float], Row]
"""One load, `concurrency` or `rate` and its value, and what was measured."""


def measure(quick: bool) -> dict[str, list[Row]]:
    """The rows of both sweeps."""
    analyzer = Analyzer.find()
    seconds = QUICK_SECONDS if quick else SECONDS
    concurrencies = CONCURRENCIES[::3] if quick else CONCURRENCIES
    with stack() as running:
        # Every shape of the mix once, so that no line pays for another's first time.
        wrk.load(running.http, mix(BODIES), seconds, 4)
        found = {
            "grpc": _sweep(_over_grpc(analyzer, running, seconds), concurrencies),
            "http": _sweep(_over_http(running, seconds), concurrencies),
        }
    if not quick:
        for name, rows in found.items():
            save_csv(f"sweep_{name}", rows)
    return found


def report(data: dict[str, list[Row]]) -> str:
    names = {"grpc": "gRPC to the ensemble (perf_analyzer)", "http": "HTTP to the frontend (wrk)"}
    columns = ("load", "answers a second", "p50, ms", "p95, ms", "p99, ms")
    parts = []
    for name, title in names.items():
        cells = [
            (f"{row['load']} {row['value']:.4g}", row["per_s"], row["p50_ms"], row["p95_ms"], row["p99_ms"])
            for row in data[name]
        ]
        parts.append(
            f"{title}, every line in [`sweep_{name}.csv`](results/sweep_{name}.csv):\n\n{table(columns, cells)}"
        )
    parts.append(
        "By rate, arrivals are random. perf_analyzer's answers a second are over a window longer than its sending; the "
        "plot shows such lines at the rate that was asked for."
    )
    return "\n\n".join(parts)


def _sweep(load: Load, concurrencies: Sequence[int]) -> list[Row]:
    rows = [{"load": "concurrency", "value": value, **load("concurrency", value)} for value in concurrencies]
    most = max(row["per_s"] for row in rows)
    return rows + [{"load": "rate", "value": share * most, **load("rate", share * most)} for share in RATES]


def _over_grpc(analyzer: Analyzer, running: Stack, seconds: float) -> Load:
    """perf_analyzer counts requests: as many as the last load answered in the time."""
    per_s = 1.0

    def load(kind: str, value: float) -> Row:
        nonlocal per_s
        requests = max(FEWEST_REQUESTS, 3 * round(value) if kind == "concurrency" else 0, round(per_s * seconds))
        options = {
            "concurrency": [f"--concurrency-range={value:.0f}"],
            "rate": [f"--request-rate-range={value:.2f}", "--request-distribution=poisson"],
        }
        measured = analyzer.measure(running.ports.grpc, mix(BODIES), requests, options[kind])
        per_s = measured["per_s"]
        return {"requests": requests, **measured}

    return load


def _over_http(running: Stack, seconds: float) -> Load:
    kept = ("requests", "per_s", "mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms")

    def load(kind: str, value: float) -> Row:
        if kind == "concurrency":
            measured = wrk.load(running.http, mix(BODIES), seconds, int(value))
        else:
            measured = wrk.paced(running.http, mix(BODIES), seconds, value)
        return {name: measured[name] for name in kept}

    return load
