"""`python -m launch serve` as a newcomer runs it: the real Triton, the real frontend, the development release."""

import json
import os
import queue
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from launch.dev_release import MARKER
from launch.shm import SHM, Regions
from launch.triton import CACHE, REPOSITORY_ROOT
from tests.stack.running import free_ports

pytestmark = [pytest.mark.xdist_group("servers"), pytest.mark.timeout(240)]
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


@pytest.fixture
def launch() -> Iterator[Callable[..., Launcher]]:
    launchers: list[Launcher] = []

    def start(*arguments: str, ports: list[int] | None = None, **settings: str) -> Launcher:
        launchers.append(Launcher(ports or free_ports(4), *arguments, **settings))
        return launchers[-1]

    yield start
    for launcher in launchers:
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


def test_from_the_command_to_an_answer_and_back_to_nothing(launch: Callable[..., Launcher]) -> None:
    launcher = launch()
    said = launcher.read_until("Ctrl-C")
    url = f"http://127.0.0.1:{launcher.ports[0]}"
    assert f"ready: {url}\n" in said
    assert (CACHE / "dev-release" / MARKER).exists()

    command = said[said.index("curl") : said.index("Ctrl-C")]
    program, _, address, _, header, _, body = shlex.split(command)
    assert program == "curl"
    with httpx.Client() as client:
        answer = client.post(address, content=body, headers=dict([header.split(": ")]))
        assert answer.status_code == 200
        assert {name: part["type"] for name, part in answer.json()["answers"].items()} == {
            "refund": "noul",
            "topic": "choice",
            "urgency": "score",
        }
        assert list(answer.json()["answers"]["topic"]["probabilities"]) == list(
            json.loads(body)["questions"]["topic"]["criteria"]
        )

    second = launch(ports=launcher.ports)
    status, complaint = second.finish()
    assert status == 1
    assert all(
        f"Port {port} is in use by another program. {name} moves it" in complaint
        for name, port in zip(PORTS, launcher.ports, strict=True)
    )

    processes = psutil.Process(launcher.process.pid).children(recursive=True)
    regions = regions_of(processes)
    assert len(processes) == 5, "Triton, three stubs and the frontend"
    assert regions
    launcher.process.send_signal(signal.SIGINT)
    assert launcher.finish() == (0, "stopping\n")
    assert_nothing_is_left(processes, launcher.ports, regions)


def test_a_killed_launcher_leaves_nothing_that_the_next_does_not_sweep(
    launch: Callable[..., Launcher], tmp_path: Path
) -> None:
    launcher = launch()
    launcher.read_until("ready:")
    processes = psutil.Process(launcher.process.pid).children(recursive=True)
    regions = regions_of(processes)
    launcher.process.kill()
    psutil.wait_procs(processes, timeout=SECONDS)
    with Regions.claim(CACHE / "locks"):
        pass
    assert_nothing_is_left(processes, launcher.ports, regions)


def test_a_dead_triton_ends_everything_with_a_sentence(launch: Callable[..., Launcher]) -> None:
    launcher = launch("--verbose")
    launcher.read_until("ready:")
    processes = psutil.Process(launcher.process.pid).children(recursive=True)
    regions = regions_of(processes)
    next(process for process in processes if process.name() == "tritonserver").kill()
    status, said = launcher.finish()
    assert status == 1
    assert "error: The process triton was killed by SIGKILL, so everything is stopped." in said
    assert_nothing_is_left(processes, launcher.ports, regions)


def test_a_dead_step_ends_everything_with_a_sentence(launch: Callable[..., Launcher]) -> None:
    launcher = launch(LAUNCH_UNHEALTHY_TIMEOUT_S="3")
    launcher.read_until("ready:")
    processes = psutil.Process(launcher.process.pid).children(recursive=True)
    regions = regions_of(processes)
    next(process for process in processes if "/clef_model/" in " ".join(process.cmdline())).kill()
    status, said = launcher.finish()
    assert status == 1
    assert "error: Nothing was answered for 3 s (LAUNCH_UNHEALTHY_TIMEOUT_S), though every process runs" in said
    assert f".cache/log/{launcher.ports[0]}/triton.log" in said
    assert regions
    assert_nothing_is_left(processes, launcher.ports, regions)


@pytest.mark.parametrize(
    ("release", "sentence"),
    [
        ("nowhere", "is not a directory"),
        ("empty", "config.json"),
    ],
)
def test_a_folder_that_is_no_release(
    launch: Callable[..., Launcher], tmp_path: Path, release: str, sentence: str
) -> None:
    (tmp_path / "empty").mkdir()
    status, said = launch("--release", str(tmp_path / release)).finish()
    assert status == 1
    assert sentence in said
    assert "python -m launch download" in said
    assert "Traceback" not in said
