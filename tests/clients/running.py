"""Running a client's script in its environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.triton import REPOSITORY_ROOT
from tests.clients.environments import client_python

SCRIPTS = Path(__file__).parent / "scripts"
_TIMEOUT_S = 120


@dataclass(frozen=True)
class Report:
    """A script's last line."""

    calls: int
    errors: tuple[str, ...]


def run_script(client: str, script: str, url: str, folder: Path, environment: Mapping[str, Any]) -> Report:
    """Run a script to its end; its output is the failure where it fails.

    It sees no variable of ours but the stack's URL, the client's own settings, and an empty home folder.
    """
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(REPOSITORY_ROOT / "tests"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SERVER_URL": url,
    } | {name: value.format(url=url) for name, value in environment.items()}
    done = subprocess.run(
        [client_python(client), SCRIPTS / script],
        env=variables,
        cwd=folder,
        timeout=_TIMEOUT_S,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    last = json.loads(done.stdout.splitlines()[-1])
    return Report(last["calls"], tuple(last["errors"]))
