"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from launch.triton import REPOSITORY_ROOT


def machine() -> dict[str, Any]:
    """Processor, cores, memory and software of this machine, and how busy it was."""
    return {
        "processor": _processor(),
        "cores": psutil.cpu_count(logical=True),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        "commit": _commit(),
        "load_before": round(os.getloadavg()[0], 1),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    git = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(git, cwd=REPOSITORY_ROOT, capture_output=True, text=True, check=False).stdout.strip()
