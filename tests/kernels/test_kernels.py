"""Runs the checks beside this file where flash-linear-attention and Triton's language are installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from launch.triton import REPOSITORY_ROOT
from tests.environments import environment

HERE = Path(__file__).parent
CHECKS = sorted(path.name for path in HERE.glob("check_*.py"))
CONSTRAINTS = REPOSITORY_ROOT / "requirements" / "constraints.txt"


@pytest.fixture(scope="module")
def python() -> Path:
    folder = REPOSITORY_ROOT / ".cache" / "kernel-env"
    return environment(folder, HERE / "requirements.txt", "-c", str(CONSTRAINTS))


@pytest.mark.timeout(1_800)  # the first run installs
@pytest.mark.parametrize("check", CHECKS)
def test_check(python: Path, check: str) -> None:
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--confcutdir", HERE, HERE / check]
    interpreted = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=REPOSITORY_ROOT, env=interpreted, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout


def test_there_are_checks() -> None:
    assert CHECKS == ["check_delta_rule.py"]
