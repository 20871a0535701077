"""Starting a real Triton and a real frontend on a CPU, and asking the ensemble directly."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton_grpc

from launch.shm import Regions
from launch.triton import CACHE, REPOSITORY_ROOT, TritonPorts, TritonServer, write_path_file
from tests.golden_cases import RELEASE

STEPS = ("clef_preprocess", "clef_model", "clef_postprocess")
START_TIMEOUT_S = 90
# A run that is killed takes its processes with it.
_END_WITH_PARENT = ["setpriv", "--pdeathsig", "TERM", "--"]


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that were free a moment ago, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@dataclass(frozen=True)
class Stack:
    triton_process: psutil.Process
    frontend_process: psutil.Process
    ports: TritonPorts
    shm_prefix: str
    frontend: str
    log: Path
    frontend_log: Path

    def stub(self, model: str) -> psutil.Process:
        """The Python stub that runs a model."""
        marker = f"/model_repository/{model}/"
        return next(
            child for child in self.triton_process.children(recursive=True) if marker in " ".join(child.cmdline())
        )

    def lines(self, request_id: str) -> list[dict[str, Any]]:
        """What the steps have written of a request until now, in order."""
        lines = [json.loads(line) for line in self.log.read_text("utf-8").splitlines() if line.startswith("{")]
        return [line for line in lines if line["request_id"] == request_id]

    def answered(self, request_id: str) -> list[dict[str, Any]]:
        """What each step wrote of a request that had its answer: a step sends its own before it writes."""
        deadline = time.monotonic() + 10
        while len(lines := self.lines(request_id)) < len(STEPS):
            assert time.monotonic() < deadline, lines
            time.sleep(0.02)
        return sorted(lines, key=lambda line: STEPS.index(line["logger"]))

    def stubs(self) -> dict[str, int]:
        """The process of each step."""
        return {model: self.stub(model).pid for model in STEPS}

    def regions(self) -> list[Path]:
        return list(Path("/dev/shm").glob(f"{self.shm_prefix}*"))

    def shared_bytes(self) -> int:
        """What is in use of the shared memory that Triton sees."""
        found = os.statvfs(f"/proc/{self.triton_process.pid}/root/dev/shm")
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def metric(self, name: str, of: str = "frontend") -> float:
        """A metric's values of all its labels together, from `frontend` or from `triton`."""
        url = f"{self.frontend}/metrics" if of == "frontend" else f"http://127.0.0.1:{self.ports.metrics}/metrics"
        text = httpx.get(url, timeout=10).text
        return sum(float(value) for value in re.findall(rf"^{name}(?:\{{.*?\}})? (\S+)$", text, re.MULTILINE))


@contextmanager
def running(
    command: list[str], environment: dict[str, str], log: Path, keep_open: Sequence[int] = ()
) -> Iterator[psutil.Process]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*_END_WITH_PARENT, *command],
            env=environment,
            stdout=output,
            stderr=output,
            cwd=REPOSITORY_ROOT,
            pass_fds=keep_open,
        )
    try:
        yield psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(url: str, process: psutil.Process, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.1)
    pytest.fail(f"{url} never became ready:\n{log.read_text(errors='replace')[-6000:]}")


def with_tmpfs(command: list[str], folder: Path, size: str) -> list[str]:
    """The command, to which `folder` is a file system of its own, in memory and of this size (`64m`)."""
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    script = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'
    return [*unshare, "sh", "-c", script, "sh", size, str(folder), *command]


@contextmanager
def start_frontend(
    folder: Path, triton: TritonPorts, disk: str | None = None, **settings: str
) -> Iterator[tuple[str, psutil.Process]]:
    """A frontend of its own: its URL and its process. Its log is `frontend.log` in `folder`.

    `disk` is the size of a file system of the frontend's own at `disk` in `folder`.
    """
    (port,) = free_ports(1)
    log, url = folder / "frontend.log", f"http://127.0.0.1:{port}"
    environment = (
        os.environ
        | {
            "TRITON_URL": f"127.0.0.1:{triton.grpc}",
            "FRONTEND_PORT": str(port),
            "SYSTEMONE_KEYS": str(folder / "keys.json"),
            "SYSTEMONE_USAGE_URL": f"sqlite:///{folder / 'usage.sqlite3'}",
        }
        | settings
    )
    command = [sys.executable, "-m", "frontend"]
    if disk:
        (folder / "disk").mkdir()
        command = with_tmpfs(command, folder / "disk", disk)
    with running(command, environment, log) as process:
        wait_for(f"{url}/health", process, log)
        yield url, process


@contextmanager
def start_stack(
    folder: Path,
    shared_memory: str | None = None,
    repository: Path = REPOSITORY_ROOT / "model_repository",
    triton_options: Sequence[str] = (),
    **settings: str,
) -> Iterator[Stack]:
    """A Triton and a frontend of their own; `settings` are environment variables. What they write is in `folder`.

    `shared_memory` is the size of Triton's, where that is not to be the machine's.
    """
    write_path_file()
    ports = TritonPorts(*free_ports(3))
    server = TritonServer.find(os.environ.get("CLEF_TRITON"))
    environment = server.environment() | {"CLEF_RELEASE": str(RELEASE), "OMP_NUM_THREADS": "1"} | settings
    log = folder / "triton.log"
    with Regions.claim(CACHE / "locks") as regions:
        cache_bytes = int(settings.get("CLEF_RESPONSE_CACHE_BYTES", 0))
        command = server.command(repository, ports, regions.prefix, exit_timeout_s=10, response_cache_bytes=cache_bytes)
        command += triton_options
        if shared_memory:
            command = with_tmpfs(command, Path("/dev/shm"), shared_memory)
        with running(command, environment, log, [regions.descriptor]) as triton:
            wait_for(f"http://127.0.0.1:{ports.http}/v2/health/ready", triton, log)
            with start_frontend(folder, ports, **settings) as (url, frontend):
                yield Stack(triton, frontend, ports, regions.prefix, url, log, folder / "frontend.log")


def bytes_input(name: str, values: list[bytes]) -> triton_grpc.InferInput:
    tensor = triton_grpc.InferInput(name, [1, len(values)], "BYTES")
    tensor.set_data_from_numpy(np.array([values], dtype=np.object_))
    return tensor


def ask(
    client: triton_grpc.InferenceServerClient,
    request: dict[str, Any] | bytes,
    images: list[bytes] | None = None,
    request_id: str = "",
    **parameters: Any,
) -> triton_grpc.InferResult:
    """A SystemOne request straight to the ensemble."""
    body = request if isinstance(request, bytes) else json.dumps(request, ensure_ascii=False).encode()
    inputs = [bytes_input("REQUEST", [body])]
    if images is not None:
        inputs.append(bytes_input("IMAGES", images))
    return client.infer("clef", inputs, request_id=request_id, parameters=parameters, client_timeout=60)


def response_of(result: triton_grpc.InferResult) -> dict[str, Any]:
    response: dict[str, Any] = json.loads(result.as_numpy("RESPONSE")[0, 0])
    return response
