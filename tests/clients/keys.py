"""Where a test's frontend keeps its keys and its usage log, and a key file without a tier for those who have no key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from launch.triton import REPOSITORY_ROOT


def places(folder: Path) -> dict[str, str]:
    """The frontend's settings for both, in this folder. Without a key file everybody may call."""
    return {
        "SYSTEMONE_KEYS": str(folder / "keys.json"),
        "SYSTEMONE_USAGE_URL": f"sqlite:///{folder}/usage.sqlite3",
    }


def new_key(folder: Path) -> str:
    """The only key of a new key file, made as an operator makes it."""
    file = places(folder)["SYSTEMONE_KEYS"]
    command = [sys.executable, "-m", "frontend.keys", "add", "client", "--no-public", "--file", file]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=REPOSITORY_ROOT)
    return done.stdout.strip()
