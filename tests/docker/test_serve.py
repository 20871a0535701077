"""What the Triton image runs, with a real Triton: it is ready while answers come, and ends where none can."""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.error import HTTPError

import psutil
import pytest

from frontend.triton import HEARTBEAT
from launch.triton import REPOSITORY_ROOT, TritonServer, write_path_file
from tests.docker.edge import Server
from tests.golden_cases import RELEASE
from tests.stack.running import free_ports

SERVE = REPOSITORY_ROOT / "docker/triton/serve.py"


class Watched:
    """serve.py with a real Triton, in a place of its own."""

    def __init__(self, folder: Path) -> None:
        write_path_file()
        triton = TritonServer.find(os.environ.get("CLEF_TRITON"))
        self.http, grpc, metrics = free_ports(3)
        self.ready = folder / "triton-ready"
        environment = triton.environment() | {
            "CLEF_RELEASE": str(RELEASE),
            "CLEF_WARMUP": "false",
            "OMP_NUM_THREADS": "1",
            "TMPDIR": str(folder),
            "TRITON_HTTP_PORT": str(self.http),
            "TRITON_GRPC_PORT": str(grpc),
            "TRITON_METRICS_PORT": str(metrics),
        }
        environment["PATH"] = f"{triton.program.parent}:{environment['PATH']}"
        options = [f"--backend-directory={triton.backends}", "--http-address=127.0.0.1", "--grpc-address=127.0.0.1"]
        self.server = Server([sys.executable, str(SERVE), *options], environment, folder / "serve.log")

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 90
        while not self.ready.exists():
            assert self.server.process.poll() is None and time.monotonic() < deadline, self.server.log.read_text()
            time.sleep(0.05)

    def status_of(self, path: str, body: bytes | None = None) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/v2/{path}", body, timeout=10) as answer:
                return int(answer.status)
        except HTTPError as error:
            error.close()
            return error.code


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    it = Watched(tmp_path)
    it.server.start()
    it.wait_until_ready()
    yield it
    it.server.close()
    assert not list(Path("/dev/shm").glob("clef_image_*"))


def test_its_question_is_a_heartbeat() -> None:
    """The steps log no answer to one, and do not count it as load while it waits."""
    spec = importlib.util.spec_from_file_location("serve", SERVE)
    assert spec is not None and spec.loader is not None
    serve = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(serve)
    assert json.loads(serve._BODY)["id"] == HEARTBEAT


@pytest.mark.parametrize(
    ("told", "options"), [(None, []), ("", []), ("0", []), ("4096", ["--cache-config=local,size=4096"])]
)
def test_the_response_cache_is_off_unless_it_has_a_size(
    monkeypatch: pytest.MonkeyPatch, told: str | None, options: list[str]
) -> None:
    if told is not None:
        monkeypatch.setenv("CLEF_RESPONSE_CACHE_BYTES", told)
    command = runpy.run_path(str(SERVE))["command"]([])
    assert [option for option in command if option.startswith("--cache")] == options


@pytest.mark.parametrize("told", ["-1", "64M", "1.5"])
def test_what_is_no_size_of_the_response_cache_is_no_start(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    monkeypatch.setenv("CLEF_RESPONSE_CACHE_BYTES", told)
    with pytest.raises(SystemExit, match=f"CLEF_RESPONSE_CACHE_BYTES={told}: "):
        runpy.run_path(str(SERVE))["command"]([])


def test_a_lost_step_is_seen_at_once_and_ends_the_container(watched: Watched) -> None:
    children = psutil.Process(watched.server.process.pid).children(recursive=True)
    began = time.monotonic()
    next(child for child in children if "/clef_preprocess/" in " ".join(child.cmdline())).kill()
    while watched.ready.exists():
        assert time.monotonic() - began < 5
        time.sleep(0.02)
    assert watched.server.process.wait(30) == 1
    assert "a step's process is gone" in watched.server.log.read_text()
    assert psutil.wait_procs(children, 10)[1] == []


def test_it_closes_what_nobody_needs_and_stops_when_told(watched: Watched) -> None:
    assert watched.status_of("models/clef/config") == 200
    for path, body in (
        ("repository/index", b"{}"),
        ("repository/models/clef/unload", b"{}"),
        ("systemsharedmemory/status", None),
        ("logging", None),
        ("trace/setting", None),
    ):
        assert watched.status_of(path, body) in (400, 403), path
    assert watched.server.stop(signal.SIGTERM) == 0
    assert not watched.ready.exists()


@contextmanager
def answering(status: int) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("status", "sign"), [(200, "LIFE"), (503, "LIFE"), (500, "FAILURE"), (400, "FAILURE")])
def test_a_refusal_for_load_is_a_sign_of_life(status: int, sign: str) -> None:
    with answering(status) as url:
        assert ask(url) == sign


def test_no_server_is_a_failure() -> None:
    assert ask(f"http://127.0.0.1:{free_ports(1)[0]}/") == "FAILURE"


def ask(url: str) -> str:
    code = f"import runpy; print(runpy.run_path({str(SERVE)!r})['ask']({url!r}).name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()
