"""Environments of other packages than the project's own: made once from a requirements file, and kept."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

_INSTALL = ("--disable-pip-version-check", "--quiet", "--retries", "3")


def environment(folder: Path, requirements: Path, *options: str) -> Path:
    """The interpreter of the environment in `folder`; made again where its requirements have changed.

    options: pip's, for the installation.
    """
    folder.mkdir(parents=True, exist_ok=True)
    python, made = folder / "bin" / "python", folder / "requirements.txt"
    wanted = f"# {sys.version}\n{_whole(requirements)}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() or made.read_text("utf-8") != wanted:
            made.unlink(missing_ok=True)
            _run(sys.executable, "-m", "venv", "--clear", "--without-pip", folder)
            _run(sys.executable, "-m", "pip", "--python", python, "install", *_INSTALL, *options, "-r", requirements)
            made.write_text(wanted, "utf-8")
    return python


def leave_out_unless(variable: str, module: Path, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of a module, which would make an environment of gigabytes, where the variable is not set."""
    if os.environ.get(variable):
        return
    large = [item for item in items if item.path == module]
    config.hook.pytest_deselected(items=large)
    items[:] = [item for item in items if item not in large]


def _whole(requirements: Path) -> str:
    """The file with those that it names by `-r` in place of their names."""
    lines = requirements.read_text("utf-8").splitlines(keepends=True)
    return "".join(
        _whole(requirements.parent / line.removeprefix("-r ").strip()) if line.startswith("-r ") else line
        for line in lines
    )


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
