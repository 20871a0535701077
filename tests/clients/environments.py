"""An environment for each client, made once from its requirements file and kept in `.cache/clients/`."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from launch.triton import REPOSITORY_ROOT
from tests.clients.registry import REQUIREMENTS

_ENVIRONMENTS = REPOSITORY_ROOT / ".cache" / "clients"
_INSTALL = ("--disable-pip-version-check", "--quiet", "--no-deps", "--retries", "3")


def client_python(name: str) -> Path:
    """The interpreter that has this client and nothing else; made again where its requirements have changed."""
    requirements = REQUIREMENTS / f"{name}.txt"
    folder = _ENVIRONMENTS / name
    folder.mkdir(parents=True, exist_ok=True)
    python, made = folder / "bin" / "python", folder / "requirements.txt"
    wanted = f"# {sys.version}\n{requirements.read_text('utf-8')}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() or made.read_text("utf-8") != wanted:
            made.unlink(missing_ok=True)
            _run(sys.executable, "-m", "venv", "--clear", "--without-pip", folder)
            # The files name every package that is needed, so that nothing is resolved here.
            _run(sys.executable, "-m", "pip", "--python", python, "install", *_INSTALL, "-r", requirements)
            made.write_text(wanted, "utf-8")
    return python


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
