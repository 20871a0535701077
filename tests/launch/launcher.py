"""`python -m launch serve` as a process, and what it leaves behind."""

from __future__ import annotations

import os
import queue
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from launch.shm import SHM
from launch.triton import CACHE, REPOSITORY_ROOT
from tests.stack.running import free_ports

PORTS = ("FRONTEND_PORT", "TRITON_HTTP_PORT", "TRITON_GRPC_PORT", "TRITON_METRICS_PORT")
SECONDS = 120


class Launcher:
    """The launcher's process and the lines that it says."""

    def __init__(self, ports: list[int], *arguments: str, **settings: str) -> None:
        self.ports = ports
        self.process = subprocess.Popen(
            [sys.executable, "-m", "launch", "serve", *arguments],
            cwd=REPOSITORY_ROOT,
            env=os.environ | {name: str(port) for name, port in zip(PORTS, ports, strict=True)} | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def read_until(self, wanted: str) -> str:
        """What is said, up to and with the line that begins so."""
        said = ""
        while (line := self._lines.get(timeout=SECONDS)) is not None:
            said += line
            if line.startswith(wanted):
                return said
        raise AssertionError(f"it ended without saying {wanted!r}, but:\n{said}")

    def finish(self) -> tuple[int, str]:
        """The exit status, and what was still said."""
        status = self.process.wait(timeout=SECONDS)
        said = ""
        while (line := self._lines.get(timeout=SECONDS)) is not None:
            said += line
        return status, said

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        shutil.rmtree(CACHE / "log" / str(self.ports[0]), ignore_errors=True)


@contextmanager
def launched(*arguments: str, ports: list[int] | None = None, **settings: str) -> Iterator[Launcher]:
    """A launcher, which is killed at the end where it has not ended by itself."""
    launcher = Launcher(ports or free_ports(len(PORTS)), *arguments, **settings)
    try:
        yield launcher
    finally:
        launcher.close()


def assert_nothing_is_left(processes: list[psutil.Process], ports: list[int], regions: list[Path]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=SECONDS)
    assert not alive
    for port in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
    assert not [region for region in regions if region.exists()]


def regions_of(processes: list[psutil.Process]) -> list[Path]:
    """The shared-memory regions that these processes map."""
    maps = {Path(entry.path) for process in processes for entry in process.memory_maps()}
    return [path for path in maps if path.parent == SHM]
