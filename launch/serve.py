"""`python -m launch serve`: from a checkout to a warm service, in the foreground."""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from clef.errors import ReleaseError
from clef.release import open_release
from launch import triton_log
from launch.dev_release import DEV_RELEASE
from launch.errors import LaunchError
from launch.example import curl
from launch.ports import check_ports
from launch.process import Child, block_signals
from launch.settings import LaunchSettings
from launch.shm import Regions
from launch.supervisor import Supervisor
from launch.triton import CACHE, REPOSITORY_ROOT, TritonPorts, TritonServer, write_path_file

MODEL_REPOSITORY = REPOSITORY_ROOT / "model_repository"
HEALTH_TIMEOUT_S = 2.0
# Loopback is asked directly, whatever proxy the environment names.
_HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def serve(settings: LaunchSettings, logs_to_stderr: bool) -> None:
    """Serves until a stop signal. Raises LaunchError with what is wrong and what to do about it."""
    try:
        check_ports(settings.ports())
    except LaunchError as error:
        if is_healthy(settings.url):
            raise LaunchError(f"{error}\nA service answers at {settings.url} already.") from None
        raise
    triton = TritonServer.find(settings.clef_triton)
    write_path_file()
    release = _release(settings.clef_release)
    logs = None if logs_to_stderr else _log_folder(settings.frontend_port)
    _say(f"starting Triton and the frontend on {release}" + (f"; logs: {_short(logs)}" if logs else ""))
    block_signals()
    with Regions.claim(CACHE / "locks") as regions:
        supervisor = Supervisor(
            _children(settings, release, triton, regions, logs),
            is_warm=lambda: is_healthy(settings.url),
            say=_say,
            start_timeout_s=settings.launch_start_timeout_s,
            unhealthy_timeout_s=settings.launch_unhealthy_timeout_s,
            stop_timeout_s=settings.launch_stop_timeout_s,
        )
        supervisor.run(when_warm=lambda: _say_ready(settings.url))


def _children(
    settings: LaunchSettings, release: Path, triton: TritonServer, regions: Regions, logs: Path | None
) -> list[Child]:
    ports = TritonPorts(settings.triton_http_port, settings.triton_grpc_port, settings.triton_metrics_port)
    shared = {
        "CLEF_RELEASE": str(release),
        "TRITON_URL": f"127.0.0.1:{settings.triton_grpc_port}",
        "FRONTEND_HOST": settings.frontend_host,
        "FRONTEND_PORT": str(settings.frontend_port),
    }
    return [
        Child(
            "triton",
            triton.command(
                MODEL_REPOSITORY, ports, regions.prefix, response_cache_bytes=settings.clef_response_cache_bytes
            ),
            triton.environment() | shared,
            logs and logs / "triton.log",
            summary=triton_log.summary,
            keep_open=[regions.descriptor],
        ),
        Child("frontend", [sys.executable, "-m", "frontend"], os.environ | shared, logs and logs / "frontend.log"),
    ]


def is_healthy(url: str) -> bool:
    """Whether the frontend at `url` says that answers come."""
    try:
        with _HTTP.open(f"{url}/health", timeout=HEALTH_TIMEOUT_S) as response:
            return bool(response.status == 200)
    except OSError:
        return False


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
