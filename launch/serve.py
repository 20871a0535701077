"""`python -m launch serve`: from a checkout to a warm service, in the foreground."""

import subprocess
import sys
from pathlib import Path

from clef.errors import ReleaseError
from clef.release import open_release
from launch.errors import LaunchError
from launch.example import curl
from launch.ports import check_ports
from launch.process import block_signals
from launch.settings import LaunchSettings
from launch.shm import Regions
from launch.supervisor import Supervisor
from launch.triton import CACHE, REPOSITORY_ROOT, TritonServer, write_path_file

DEV_RELEASE = CACHE / "dev-release"


def serve(settings: LaunchSettings, logs_to_stderr: bool) -> None:
    """Serves until a stop signal. Raises LaunchError with what is wrong and what to do about it."""
    check_ports(settings.ports())
    triton = TritonServer.find(settings.clef_triton)
    write_path_file()
    release = _release(settings.clef_release)
    logs = None if logs_to_stderr else _log_folder(settings.frontend_port)
    _say(f"starting Triton and the frontend on {release}" + (f"; logs: {_short(logs)}" if logs else ""))
    block_signals()
    with Regions.claim(CACHE / "locks") as regions:
        Supervisor(settings, release, triton, regions, logs, _say, lambda: _say_ready(settings.url)).run()


def _release(configured: Path | None) -> Path:
    if configured is None:
        # In a process of its own: torch, which makes the weights, stays out of the launcher's memory.
        made = subprocess.run([sys.executable, "-m", "launch", "dev-release"], cwd=REPOSITORY_ROOT, check=False)
        if made.returncode != 0:
            raise LaunchError("The development release could not be written.")
        return DEV_RELEASE
    release = configured.expanduser().resolve()
    try:
        open_release(release)
    except ReleaseError as error:
        raise LaunchError(
            f"{release} cannot be served: {error}. A release is downloaded with "
            "`python -m launch download clef-flash --dir DIR`."
        ) from None
    return release


def _log_folder(port: int) -> Path:
    folder = CACHE / "log" / str(port)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _short(path: Path) -> str:
    return f"{path.relative_to(REPOSITORY_ROOT)}/"


def _say_ready(url: str) -> None:
    print(f"ready: {url}", flush=True)
    _say(f"\nTry it, from another terminal:\n\n{curl(url)}\n\nCtrl-C stops everything.")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
