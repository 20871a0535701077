"""Runs the checks beside this file where the extra for videos is installed, one of them against a stack that has it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.triton import REPOSITORY_ROOT
from tests.environments import environment
from tests.stack.running import Stack, start_stack

HERE = Path(__file__).parent
STACK = "check_stack.py"
CHECKS = sorted(path.name for path in HERE.glob("check_*.py") if path.name != STACK)
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def python() -> Path:
    return environment(REPOSITORY_ROOT / ".cache" / "video-env", HERE / "requirements.txt")


@pytest.fixture(scope="module")
def stack(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Its steps take their packages from the environment with the extra; the frontend needs none of them."""
    (packages,) = python.parent.parent.glob("lib/python*/site-packages")
    (packages / "clef-triton.pth").write_text(f"{REPOSITORY_ROOT}\n", "utf-8")
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    with start_stack(tmp_path_factory.mktemp("videos"), PATH=path, CLEF_VIDEOS="1") as running:
        yield running


def run(python: Path, check: str, **environment: str) -> None:
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--confcutdir", HERE, HERE / check]
    done = subprocess.run(
        command, cwd=REPOSITORY_ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout


@pytest.mark.timeout(1_800)  # the first run installs
@pytest.mark.parametrize("check", CHECKS)
def test_check(python: Path, check: str) -> None:
    run(python, check)


@pytest.mark.timeout(1_800)
def test_check_of_the_stack(python: Path, stack: Stack) -> None:
    run(
        python,
        STACK,
        VIDEO_STACK_HTTP=stack.frontend,
        VIDEO_STACK_GRPC=f"127.0.0.1:{stack.ports.grpc}",
        VIDEO_STACK_USAGE=str(stack.frontend_log.with_name("usage.sqlite3")),
    )
    assert stack.stub("clef_preprocess").children() == []
    assert stack.stub("clef_preprocess").memory_info().rss < 1_000 * MIB


def test_there_are_checks() -> None:
    assert CHECKS == ["check_limits.py", "check_publisher.py"] and (HERE / STACK).exists()
