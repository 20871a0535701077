import subprocess
import sys
from pathlib import Path

import pytest

from launch.triton import REPOSITORY_ROOT

COMMANDS = ["serve", "doctor", "verify", "download", "dev-release"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "launch", *arguments],
        cwd=REPOSITORY_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def test_the_commands_are_listed() -> None:
    said = run("--help").stdout
    assert all(command in said for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0
    assert f"python -m launch {command}" in done.stdout


@pytest.mark.parametrize("arguments", [["dev-release", "--size", "huge"], ["download", "clef-flash"], ["sreve"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "Usage:" in done.stderr


def test_what_may_go_wrong_exits_with_1_and_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    done = run("dev-release", "--dir", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == f"error: {tmp_path} holds something that is no development release: choose another folder.\n"


def test_the_launcher_loads_no_torch() -> None:
    code = "import sys, launch.__main__; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY_ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
