"""Where a model is loaded decides how fast its scheduler's thread computes."""

from __future__ import annotations

import os
import subprocess
import sys

from launch.triton import REPOSITORY_ROOT
from tests.golden_cases import RELEASE

THREADS_AFTER = f"""
import psutil, time
from pathlib import Path
from clef.model import ClefModel
from clef.settings import ModelSettings
from clef.start import start

def here(settings, device):
    ClefModel.load(settings, device).warm_up()

{{how}}(ModelSettings(release=Path({str(RELEASE)!r})), "cpu")
time.sleep(1)  # a team ends after its thread
print(psutil.Process().num_threads())
"""


def threads_after(how: str) -> int:
    """The threads of a process of its own in which a model was loaded so, on two cores."""
    done = subprocess.run(
        [sys.executable, "-c", THREADS_AFTER.format(how=how)],
        cwd=REPOSITORY_ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return int(done.stdout)


def test_no_team_of_threads_is_left_behind() -> None:
    # Loaded in the thread that asks, there is one more: the second of its team.
    assert threads_after("start") == threads_after("here") - 1
