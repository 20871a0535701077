"""`python -m launch serve` as a newcomer runs it: the real Triton, the real frontend, the development release.

What it does when one of its processes is killed is in `tests/stack/test_kills.py`.
"""

import json
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest

from launch.dev_release import MARKER
from launch.shm import Regions
from launch.triton import CACHE
from tests.launch.launcher import PORTS, SECONDS, Launcher, assert_nothing_is_left, launched, regions_of

pytestmark = [pytest.mark.xdist_group("servers"), pytest.mark.timeout(240)]


@pytest.fixture
def launch() -> Iterator[Callable[..., Launcher]]:
    with ExitStack() as launchers:
        yield lambda *arguments, **options: launchers.enter_context(launched(*arguments, **options))


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
    assert complaint.endswith(f"\nA service answers at {url} already.\n")

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
