"""The unit as systemd reads it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from launch.triton import REPOSITORY_ROOT

UNIT = REPOSITORY_ROOT / "docker/systemd/clef-triton.service"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The unit with this checkout in place of its own, since systemd looks whether the program is there."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/clef-triton", str(REPOSITORY_ROOT)))
    return copy


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


def test_systemd_takes_it_without_a_word(here: Path) -> None:
    done = analyze("verify", "--man=no", here)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_confined(here: Path) -> None:
    # Out of 100; an unconfined service has 96, and past 30 this fails.
    done = analyze("security", "--offline=true", "--threshold=30", here)
    assert done.returncode == 0, done.stdout
