"""Throughput of the whole stack beside the bare model and beside the publisher's code behind the same web framework.

Short requests of about one length. The bare model computes the same records in a loop, at each batch size, before and
after the stack; the best size counts. On a CPU the model and everything around it share the cores, which no GPU does:
so it is measured twice, with every core for the model's threads, and with one core for them, where the rest of the
stack has the others. wrk makes the load and takes part in that sharing: its own CPU time is shown, and counted out
where the model would have had it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from launch.triton import REPOSITORY_ROOT
from perf import wrk
from perf.client import Caller
from perf.load_data import shorts
from perf.side_by_side import table
from perf.stack import BENCH_RELEASE, free_ports, make_release, stack, wait_until_warm

TITLE = "Throughput"
CONCURRENCIES = (16, 32)
BATCHES = (1, 4, 8, 16, 32)
QUICK_BATCHES = (1, 8)
BODIES = 64
SECONDS = 30.0
"""Of each load: what is in flight at its end is not counted, and is up to two batches."""
PUBLISHER_SECONDS = 10.0
SECONDS_A_BATCH = 1.0
QUICK = 5.0
"""How many times shorter a quick measurement is."""
OF_BARE, OF_PUBLISHER = 0.9, 1.2


def measure(quick: bool) -> list[dict[str, Any]]:
    """One row a number of model threads, rates in requests a second."""
    cores = psutil.cpu_count() or 1
    shorter, batches = (QUICK, QUICK_BATCHES) if quick else (1.0, BATCHES)
    return [_measure(threads, batches, shorter) for threads in dict.fromkeys((cores, 1))]


def report(data: list[dict[str, Any]]) -> str:
    columns = ("model threads", "clients", "stack, a second", "CPU of wrk", "of the bare model", "times publisher")
    cores, cells = data[0]["threads"], []
    for row in data:
        bare = _bare_rate(row)
        for found in row["stack"]:
            rate, spent = found["per_s"], found["generator_cpu_s"] / found["seconds"]
            of_bare = f"{rate / bare:.3f}"
            if row["threads"] == cores:
                of_bare += f", {counted_out(rate, spent, cores) / bare:.3f} without wrk"
            times = rate / row["publisher"]["per_s"]
            cells.append((row["threads"], found["connections"], rate, f"{spent:.1%} of a core", of_bare, times))
    bare_columns = ("model threads", *(f"batch of {size}" for size in data[0]["bare"]), "publisher, one at a time")
    bare_cells = [
        (row["threads"], *(_mean(rates) for rates in row["bare"].values()), row["publisher"]["per_s"]) for row in data
    ]
    return (
        f"Asked: {OF_BARE} of the bare model at its best batch, {OF_PUBLISHER} times the publisher's.\n\n"
        f"{table(columns, cells)}\n\nRequests a second of the bare model by batch size, and of the publisher's "
        f"`systemone()` behind FastAPI, by the same wrk:\n\n{table(bare_columns, bare_cells)}"
    )


def counted_out(rate: float, generator: float, cores: int) -> float:
    """The rate if the cores had not had the load generator to run as well, which used so much of one of them."""
    return rate * cores / (cores - generator)


def _measure(threads: int, batches: Sequence[int], shorter: float) -> dict[str, Any]:
    make_release(BENCH_RELEASE)
    before = _bare(threads, batches, SECONDS_A_BATCH / shorter)
    with stack(threads=threads) as running:
        wrk.load(running.http, shorts(BODIES), 2, 16)
        found = [_load(running.http, SECONDS / shorter, clients) for clients in CONCURRENCIES]
    with _published(threads) as port:
        wrk.load(port, shorts(BODIES), 1, 1)
        published = _load(port, PUBLISHER_SECONDS / shorter, CONCURRENCIES[0])
    after = _bare(threads, batches, SECONDS_A_BATCH / shorter)
    bare = {size: [before[size], after[size]] for size in before}
    return {"threads": threads, "bare": bare, "stack": found, "publisher": published}


def _load(port: int, seconds: float, clients: int) -> dict[str, Any]:
    """wrk, from when nothing of an earlier load is computed any more."""
    with Caller(port) as caller:
        caller.ask_all(shorts(1))
    return wrk.load(port, shorts(BODIES), seconds, clients)


def _bare_rate(row: dict[str, Any]) -> float:
    """At the best batch size."""
    return max(_mean(rates) for rates in row["bare"].values())


def _mean(rates: Sequence[float]) -> float:
    return sum(rates) / len(rates)


def _bare(threads: int, batches: Sequence[int], seconds: float) -> dict[str, float]:
    """Records a second by batch size, in a process of its own: this one has another number of threads."""
    command = [sys.executable, "-m", "perf.bare_model", str(BENCH_RELEASE), str(threads), str(seconds)]
    command += [str(size) for size in batches]
    done = subprocess.run(command, cwd=REPOSITORY_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return {size: float(rate) for size, rate in (line.split() for line in done.stdout.splitlines())}


@contextmanager
def _published(threads: int, release: Path = BENCH_RELEASE) -> Iterator[int]:
    """The port of the publisher's code behind FastAPI."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "perf.publisher_server", str(port), str(release), str(threads)]
    server = subprocess.Popen(command, cwd=REPOSITORY_ROOT)
    try:
        wait_until_warm(f"http://127.0.0.1:{port}/health", lambda: server.poll() and "the publisher's server ended")
        time.sleep(0.5)
        yield port
    finally:
        server.terminate()
        server.wait(20)
