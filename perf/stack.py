"""The real stack, to be measured: a Triton with the model repository and the frontend, on free ports.

The state cache is off unless a section turns it on: load that repeats itself would measure the cache. The processes
are started as `make serve` starts them.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from launch import triton_log
from launch.process import Child
from launch.serve import MODEL_REPOSITORY
from launch.shm import SHM, Regions
from launch.triton import CACHE, REPOSITORY_ROOT, TritonPorts, TritonServer, write_path_file

BENCH_RELEASE = CACHE / "bench-release"
DEV_RELEASE = CACHE / "dev-release"
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 40.0
STEPS = ("clef_preprocess", "clef_model", "clef_postprocess")
# Loopback is asked directly, whatever proxy the environment names.
_HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class StackFailed(Exception):
    """It did not start; the text has the end of the log."""


@dataclass(frozen=True)
class Stack:
    """A warm stack."""

    http: int
    """The frontend's port."""
    ports: TritonPorts
    start_s: float
    """From the start of the processes to the first warm answer."""
    shm_prefix: str
    _pids: tuple[int, int]

    def processes(self) -> dict[str, psutil.Process]:
        """Triton, its steps' stubs and the frontend, by name."""
        triton, frontend = (psutil.Process(pid) for pid in self._pids)
        found = {"tritonserver": triton, "frontend": frontend}
        for child in triton.children(recursive=True):
            command = " ".join(child.cmdline())
            found.update({step: child for step in STEPS if f"/{step}/" in command})
        return found

    def resident_mib(self) -> dict[str, float]:
        """Resident memory of each process, and what the stubs' regions in /dev/shm hold."""
        sizes = {name: process.memory_info().rss / 2**20 for name, process in self.processes().items()}
        blocks = (path.stat().st_blocks * 512 for path in SHM.glob(f"{self.shm_prefix}*"))
        return sizes | {"/dev/shm": sum(blocks) / 2**20}

    def reset_peaks(self) -> None:
        """Begin anew with `peak_mib`: Linux keeps a process's peak until it is told to forget it."""
        for process in self.processes().values():
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")

    def peak_mib(self) -> dict[str, float]:
        """The most resident memory of each process since its peak was reset."""
        return {name: _peak_kib(process.pid) / 2**10 for name, process in self.processes().items()}

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds that each process has used."""
        times = {name: process.cpu_times() for name, process in self.processes().items()}
        return {name: time.user + time.system for name, time in times.items()}


@contextmanager
def stack(
    settings: Mapping[str, str] | None = None,
    *,
    release: Path = BENCH_RELEASE,
    repository: Path = MODEL_REPOSITORY,
    threads: int | None = None,
) -> Iterator[Stack]:
    """Starts it and waits until it is warm; `settings` are environment variables. Raises StackFailed.

    `threads`: of the model; None: torch's own choice, every core.
    """
    make_release(release)
    write_path_file()
    triton = TritonServer.find(os.environ.get("CLEF_TRITON"))
    http, *triton_ports = free_ports(4)
    ports = TritonPorts(*triton_ports)
    with tempfile.TemporaryDirectory(prefix="clef-perf-") as name, Regions.claim(CACHE / "locks") as regions:
        folder = Path(name)
        environment = triton.environment() | {
            "CLEF_RELEASE": str(release),
            "CLEF_STATE_CACHE_BYTES": "0",
            "TRITON_URL": f"127.0.0.1:{ports.grpc}",
            "FRONTEND_PORT": str(http),
            "SYSTEMONE_KEYS": str(folder / "no-keys.json"),
            "SYSTEMONE_USAGE_URL": f"sqlite:///{folder}/usage.sqlite3",
            **({"OMP_NUM_THREADS": str(threads)} if threads else {}),
            **(settings or {}),
        }
        cache_bytes = int((settings or {}).get("CLEF_RESPONSE_CACHE_BYTES", 0))
        command = triton.command(repository, ports, regions.prefix, exit_timeout_s=20, response_cache_bytes=cache_bytes)
        children = [
            Child("triton", command, environment, folder / "triton.log", triton_log.summary, [regions.descriptor]),
            Child("frontend", [sys.executable, "-m", "frontend"], environment, folder / "frontend.log"),
        ]
        with ExitStack() as running:
            started = time.monotonic()
            for child in children:
                child.start()
                running.callback(_stop, child)
            wait_until_warm(f"http://127.0.0.1:{http}/health", lambda: _ended(children))
            yield Stack(http, ports, time.monotonic() - started, regions.prefix, _pids(children))


def make_release(release: Path) -> None:
    """Writes the development releases that are missing; any other is there already."""
    size = {BENCH_RELEASE: "bench", DEV_RELEASE: "dev"}.get(release)
    if size is not None:
        command = [sys.executable, "-m", "launch", "dev-release", "--size", size, "--dir", str(release)]
        subprocess.run(command, cwd=REPOSITORY_ROOT, check=True)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that were free a moment ago, all different."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def wait_until_warm(url: str, ended: Callable[[], object]) -> None:
    """Waits until the URL answers with success. Raises StackFailed with what `ended` says, if anything, or in time."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(OSError), _HTTP.open(url, timeout=5):
            return
        if how := ended():
            raise StackFailed(str(how))
        time.sleep(0.05)
    raise StackFailed(f"{url} was not warm after {START_TIMEOUT_S:.0f} s")


def _peak_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def _ended(children: Sequence[Child]) -> str | None:
    for child in children:
        if how := child.ended():
            return f"{child.name} {how}{child.last_words()}"
    return None


def _stop(child: Child) -> None:
    child.ask_to_end()
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while not child.has_ended() and time.monotonic() < deadline:
        time.sleep(0.05)
    child.kill()


def _pids(children: Sequence[Child]) -> tuple[int, int]:
    found = {" ".join(process.cmdline()[:3]): process.pid for process in psutil.Process().children()}
    triton = next(pid for command, pid in found.items() if "tritonserver" in command)
    frontend = next(pid for command, pid in found.items() if command.endswith("-m frontend"))
    return triton, frontend
