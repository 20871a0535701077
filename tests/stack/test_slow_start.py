"""A Triton that takes its time is waited for without hands, and a stop under load gives every answer that is owed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from launch.triton import TritonServer
from tests.golden_cases import RELEASE
from tests.invariants import assert_answer
from tests.launch.launcher import assert_nothing_is_left, launched, regions_of

pytestmark = pytest.mark.timeout(240)

SLEEP_S = 4
REQUESTS = 6
SHORT = {"state": "x", "questions": {"q": {"type": "noul"}}}


def longer(index: int) -> dict:
    return {"state": f"{index} " + "lorem ipsum dolor " * 200, "questions": {"q": {"type": "noul"}}}


def slow_triton(folder: Path) -> Path:
    """A server as an operator installs it, which does nothing for some seconds."""
    real = TritonServer.find(os.environ.get("CLEF_TRITON"))
    program = folder / "bin" / "tritonserver"
    program.parent.mkdir()
    libraries = ":".join(map(str, real.libraries))
    program.write_text(
        f'#!/bin/sh\nsleep {SLEEP_S}\nexport LD_LIBRARY_PATH="{libraries}:$LD_LIBRARY_PATH"\nexec {real.program} "$@"\n'
    )
    program.chmod(0o755)
    (folder / "backends").symlink_to(real.backends)
    return program


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def answers(url: str) -> bool:
    try:
        httpx.get(url, timeout=5)
    except httpx.TransportError:
        return False
    return True


def in_flight(url: str) -> int:
    lines = httpx.get(f"{url}/metrics", timeout=5).text.splitlines()
    return next(int(float(line.split()[1])) for line in lines if line.startswith("systemone_in_flight "))


def test_a_slow_start_and_a_stop_under_load(tmp_path):
    (tmp_path / "triton").mkdir()
    settings = {
        "CLEF_TRITON": str(slow_triton(tmp_path / "triton")),
        "CLEF_RELEASE": str(RELEASE),
        "CLEF_WARMUP": "false",
        "OMP_NUM_THREADS": "1",
        "SYSTEMONE_KEYS": str(tmp_path / "keys.json"),
        "SYSTEMONE_USAGE_URL": f"sqlite:///{tmp_path / 'usage.sqlite3'}",
    }
    with launched(**settings) as launcher:
        url = f"http://127.0.0.1:{launcher.ports[0]}"
        until(lambda: answers(f"{url}/health"), "the frontend waits for Triton")
        health, refused = httpx.get(f"{url}/health"), httpx.post(f"{url}/v1/systemone", json=SHORT)
        assert (health.status_code, health.json()["status"]) == (503, "unavailable")
        assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
        assert refused.json()["detail"]["error_type"] == "overloaded_error"

        launcher.read_until("ready:")
        assert httpx.get(f"{url}/health").status_code == 200
        processes = psutil.Process(launcher.process.pid).children(recursive=True)
        regions = regions_of(processes)
        with ThreadPoolExecutor(REQUESTS) as pool:
            asked = [
                pool.submit(httpx.post, f"{url}/v1/systemone", json=longer(index), timeout=60)
                for index in range(REQUESTS)
            ]
            until(lambda: in_flight(url) == REQUESTS, "they were not asked")
            launcher.process.terminate()
            until(lambda: not answers(url), "it takes new connections")
            assert not all(future.done() for future in asked), "nothing ran any more when it was refused"
            for index, future in enumerate(asked):
                assert future.result().status_code == 200
                assert_answer(longer(index), future.result().json())
        status, said = launcher.finish()
        assert status == 0 and said.endswith("stopping\n")
        assert_nothing_is_left(processes, launcher.ports, regions)
