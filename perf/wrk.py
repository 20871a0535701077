"""Load over HTTP by wrk, an event-driven generator in C that costs next to no CPU (Debian: `apt-get install wrk`).

wrk keeps a number of connections busy. A rate of requests is approached by many connections that each pause before a
request, for times that are exponentially distributed: arrivals are then near to a Poisson process, and do not slow
down before the connections are all waiting.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from perf.client import ROUTE

SCRIPT = Path(__file__).with_suffix(".lua")
PACED_CONNECTIONS = 64
MORE_S = 60


def load(port: int, bodies: Iterable[bytes], seconds: float, connections: int, pause_ms: float = 0.0) -> dict[str, Any]:
    """Keeps `connections` busy with the bodies in turn; latencies, the rate and wrk's own CPU seconds.

    Raises RuntimeError where wrk is missing or failed, and where a request was not answered with success.
    """
    program = shutil.which("wrk")
    if program is None:
        raise RuntimeError("wrk is not installed: apt-get install wrk")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(b"\n".join(bodies))
        file.flush()
        command = [program, "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "60s"]
        command += ["-s", str(SCRIPT), f"http://127.0.0.1:{port}{ROUTE}", "--", file.name, str(pause_ms)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + MORE_S, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode != 0 or not result:
        raise RuntimeError(f"wrk failed: {done.stdout}{done.stderr}")
    measured: dict[str, Any] = json.loads(result[0].removeprefix("RESULT "))
    if measured["failed"]:
        raise RuntimeError(f"{measured['failed']} of {measured['requests']} requests failed")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "connections": connections,
        "per_s": measured["requests"] / measured["seconds"],
        "generator_cpu_s": cpu_s,
        **measured,
    }


def paced(port: int, bodies: Iterable[bytes], seconds: float, rate: float) -> dict[str, Any]:
    """About `rate` requests a second."""
    pause_ms = PACED_CONNECTIONS / rate * 1e3
    return {"asked_per_s": rate, **load(port, bodies, seconds, PACED_CONNECTIONS, pause_ms)}
