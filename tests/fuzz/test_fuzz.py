"""Every input of the corpus, past findings among them, and some seconds of looking for new ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from launch.triton import REPOSITORY_ROOT
from tests.fuzz.__main__ import CORPUS, NAMES
from tests.fuzz.targets import TARGETS

SECONDS = 5
INPUTS = [
    pytest.param(name, file, id=f"{name}-{file.name}") for name in NAMES for file in sorted((CORPUS / name).iterdir())
]


@pytest.mark.parametrize(("name", "file"), INPUTS)
def test_the_corpus(name: str, file: Path) -> None:
    TARGETS[name](file.read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_nothing_new_is_found_in_a_while(name: str) -> None:
    """The seed is fixed; how far it comes depends on the machine. What it finds is left in the corpus, to be read."""
    before = set((CORPUS / name).iterdir())
    command = [sys.executable, "-m", "tests.fuzz", str(SECONDS), "--target", name, "--seed", "1"]
    done = subprocess.run(command, cwd=REPOSITORY_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert set((CORPUS / name).iterdir()) == before
    tried = next(line for line in done.stderr.splitlines() if line.startswith("stat::number_of_executed_units:"))
    assert int(tried.split()[-1]) > len(before)


def test_a_fault_is_found_and_kept(tmp_path: Path) -> None:
    """The finder itself: a parser that fails on a repeated key is caught from the same corpus."""
    code = f"""
import sys
import atheris

def fragile(data):
    if b'"a":1,"a":2' in data:
        raise KeyError("a")

atheris.Setup([sys.argv[0], "-runs=20000", "-seed=1", "-artifact_prefix={tmp_path}/found-", "{CORPUS}/body"], fragile)
atheris.Fuzz()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "Uncaught Python exception" in done.stderr + done.stdout
    (found,) = tmp_path.iterdir()
    assert b'"a":1,"a":2' in found.read_bytes()
