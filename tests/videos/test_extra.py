"""Runs the checks beside this file where the extra for videos is installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from launch.triton import REPOSITORY_ROOT
from tests.environments import environment

HERE = Path(__file__).parent
CHECKS = sorted(path.name for path in HERE.glob("check_*.py"))


@pytest.fixture(scope="module")
def python() -> Path:
    return environment(REPOSITORY_ROOT / ".cache" / "video-env", HERE / "requirements.txt")


@pytest.mark.timeout(1_800)  # the first run installs
@pytest.mark.parametrize("check", CHECKS)
def test_check(python: Path, check: str) -> None:
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--confcutdir", HERE, HERE / check]
    done = subprocess.run(command, cwd=REPOSITORY_ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout


def test_there_are_checks() -> None:
    assert CHECKS == ["check_limits.py", "check_publisher.py"]
