"""The supervisor over real processes: small ones, whose behaviour each test writes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

DRIVER = Path(__file__).with_name("small_service.py")
ROOT = DRIVER.parent.parent.parent

# Writes its number, says when it ends, and ends when it is asked to.
POLITE = """
import os, pathlib, signal, sys
folder, name = pathlib.Path(__file__).parent, pathlib.Path(__file__).stem
def end(*_):
    with (folder / "ends").open("a") as ends: ends.write(name + "\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
(folder / f"{name}.pid").write_text(str(os.getpid()))
while True: signal.pause()
"""
# Is warm as soon as both have started.
POLITE_AND_WARM = POLITE.replace("while True", '(folder / "warm").touch()\nwhile True')
STUBBORN = POLITE.replace("sys.exit(0)", "pass")


class Service:
    """The driver's process and the folder of its children."""

    def __init__(self, folder: Path, first: str, second: str, **environment: str) -> None:
        self.folder = folder
        (folder / "first.py").write_text(first)
        (folder / "second.py").write_text(second)
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        )

    def wait_for_line(self, wanted: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == wanted:
                return
        raise AssertionError(f"the driver ended without saying {wanted!r}")

    def finish(self) -> tuple[int, str]:
        """The exit status, and what it still said."""
        output, _ = self.process.communicate(timeout=20)
        return self.process.returncode, output

    def child(self, name: str) -> psutil.Process:
        path = self.folder / f"{name}.pid"
        wait_until(lambda: path.exists() and path.read_text() != "")
        return psutil.Process(int(path.read_text()))

    def ends(self) -> list[str]:
        return (self.folder / "ends").read_text().split()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    services: list[Service] = []

    def start_one(first: str, second: str, **environment: str) -> Service:
        services.append(Service(tmp_path, first, second, **environment))
        return services[-1]

    yield start_one
    for service in services:
        with service.process as process:  # closes its pipe
            process.kill()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_ends_the_children_last_first_and_the_launcher_with_0(
    start: Callable[..., Service], stop: signal.Signals
) -> None:
    service = start(POLITE, POLITE_AND_WARM)
    service.wait_for_line("warm")
    children = [service.child("first"), service.child("second")]
    service.process.send_signal(stop)
    assert service.finish() == (0, "stopping\n")
    assert service.ends() == ["second", "first"]
    assert all(gone(child) for child in children)


def test_a_stop_signal_before_it_is_warm(start: Callable[..., Service]) -> None:
    service = start(POLITE, POLITE)
    children = [service.child("first"), service.child("second")]
    service.process.send_signal(signal.SIGINT)
    assert service.finish() == (0, "stopping\n")
    assert all(gone(child) for child in children)


@pytest.mark.parametrize("warm", [False, True])
def test_a_child_that_ends_by_itself_ends_the_whole(start: Callable[..., Service], warm: bool) -> None:
    service = start(POLITE, POLITE_AND_WARM if warm else POLITE)
    if warm:
        service.wait_for_line("warm")
    other = service.child("second")
    service.child("first").kill()
    status, said = service.finish()
    assert status == 1
    assert "The process first was killed by SIGKILL, so everything is stopped." in said
    assert service.ends() == ["second"]
    assert gone(other)


def test_a_failed_childs_last_lines_are_shown(start: Callable[..., Service]) -> None:
    service = start('import sys; print("\\n".join(f"line {i}" for i in range(99))); sys.exit(7)', POLITE)
    status, said = service.finish()
    assert status == 1
    assert "The process first ended with exit status 7" in said
    assert "line 98\n" in said
    assert "line 50\n" not in said
    assert str(service.folder / "first.log") in said


def test_a_killed_launcher_takes_its_children_along(start: Callable[..., Service]) -> None:
    service = start(POLITE, POLITE_AND_WARM)
    service.wait_for_line("warm")
    children = [service.child("first"), service.child("second")]
    service.process.kill()
    wait_until(lambda: all(gone(child) for child in children))
    assert sorted(service.ends()) == ["first", "second"]


def test_a_child_that_does_not_end_is_killed_in_time(start: Callable[..., Service]) -> None:
    service = start(STUBBORN, POLITE_AND_WARM, STOP_TIMEOUT_S="0.3")
    service.wait_for_line("warm")
    stubborn = service.child("first")
    service.process.terminate()
    assert service.finish() == (0, "stopping\n")
    assert gone(stubborn)
    assert service.ends() == ["second", "first"]


def test_a_second_stop_signal_kills_at_once(start: Callable[..., Service]) -> None:
    service = start(POLITE, STUBBORN.replace("while True", '(folder / "warm").touch()\nwhile True'))
    service.wait_for_line("warm")
    children = [service.child("first"), service.child("second")]
    service.process.send_signal(signal.SIGINT)
    wait_until((service.folder / "ends").exists)
    service.process.send_signal(signal.SIGINT)
    assert service.finish()[0] == 0
    assert all(gone(child) for child in children)
    assert service.ends() == ["second"]


def test_a_childs_own_children_end_too(start: Callable[..., Service]) -> None:
    with_child = POLITE.replace("os.getpid()", "subprocess.Popen(['sleep', '60']).pid").replace(
        "import os", "import subprocess"
    )
    service = start(with_child, POLITE_AND_WARM)
    service.wait_for_line("warm")
    inner = service.child("first")
    service.process.terminate()
    assert service.finish()[0] == 0
    assert gone(inner)


def test_what_is_warm_no_more_for_long_is_given_up(start: Callable[..., Service]) -> None:
    service = start(POLITE, POLITE_AND_WARM, UNHEALTHY_TIMEOUT_S="2")
    service.wait_for_line("warm")
    children = [service.child("first"), service.child("second")]
    (service.folder / "warm").unlink()
    status, said = service.finish()
    assert status == 1
    assert "Nothing was answered for 2 s (LAUNCH_UNHEALTHY_TIMEOUT_S)" in said
    assert str(service.folder / "first.log") in said
    assert service.ends() == ["second", "first"]
    assert all(gone(child) for child in children)


def test_what_is_warm_again_in_time_goes_on(start: Callable[..., Service]) -> None:
    service = start(POLITE, POLITE_AND_WARM, UNHEALTHY_TIMEOUT_S="4")
    service.wait_for_line("warm")
    for _ in range(2):
        (service.folder / "warm").unlink()
        time.sleep(2.5)
        (service.folder / "warm").touch()
        time.sleep(1.5)
    assert service.process.poll() is None
    service.process.terminate()
    assert service.finish() == (0, "stopping\n")


def test_what_is_never_warm_is_given_up(start: Callable[..., Service]) -> None:
    service = start(POLITE, POLITE, START_TIMEOUT_S="3")
    children = [service.child("first"), service.child("second")]
    status, said = service.finish()
    assert status == 1
    assert "Nothing was warm after 3 s (LAUNCH_START_TIMEOUT_S)." in said
    assert all(gone(child) for child in children)
