"""Triton and the frontend on this machine: started together, stopped together.

The frontend is stopped first, so that the answers it still owes arrive; then Triton; then the shared-memory regions
are removed. A child that ends by itself ends the whole.
"""

import os
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from launch.errors import LaunchError
from launch.process import STOP_SIGNALS, Child, next_signal, wait_until
from launch.settings import LaunchSettings
from launch.shm import Regions
from launch.triton import REPOSITORY_ROOT, TritonPorts, TritonServer

# Loopback is asked directly, whatever proxy the environment names.
_HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))
MODEL_REPOSITORY = REPOSITORY_ROOT / "model_repository"
HEALTH_TIMEOUT_S = 2.0
REMIND_AFTER_S = 30.0
# Beyond the time that a process gives itself to end.
KILL_AFTER_S = 5.0


class Supervisor:
    """The processes of one launch."""

    def __init__(
        self,
        settings: LaunchSettings,
        release: Path,
        triton: TritonServer,
        regions: Regions,
        logs: Path | None,
        say: Callable[[str], None],
        when_ready: Callable[[], None],
    ) -> None:
        """`logs`: the folder of the children's logs, None for stderr; `say` shows a line to the person who waits."""
        self._settings = settings
        self._regions = regions
        self._say = say
        self._when_ready = when_ready
        ports = TritonPorts(settings.triton_http_port, settings.triton_grpc_port, settings.triton_metrics_port)
        shared = {
            "CLEF_RELEASE": str(release),
            "TRITON_URL": f"127.0.0.1:{settings.triton_grpc_port}",
            "FRONTEND_HOST": settings.frontend_host,
            "FRONTEND_PORT": str(settings.frontend_port),
        }
        triton_command = triton.command(MODEL_REPOSITORY, ports, regions.prefix, settings.launch_stop_timeout_s)
        frontend_command = [sys.executable, "-m", "frontend"]
        self._children = [
            Child("triton", triton_command, triton.environment() | shared, logs and logs / "triton.log"),
            Child("frontend", frontend_command, os.environ | shared, logs and logs / "frontend.log"),
        ]

    def run(self) -> None:
        """Starts everything, says when it is ready, and returns once it was asked to stop and has stopped.

        Raises LaunchError where a process ended by itself, or nothing was warm in time.
        """
        try:
            for child in self._children:
                child.start(keep_open=[self._regions.descriptor])
            if not self._wait_until_warm():
                return
            self._when_ready()
            while next_signal(timeout_s=60.0) not in STOP_SIGNALS:
                self._raise_if_one_ended()
            self._say("stopping")
        finally:
            self._stop()

    def _wait_until_warm(self) -> bool:
        """False where a stop signal came first."""
        started = time.monotonic()
        timeout_s = self._settings.launch_start_timeout_s
        reminders = 1

        def warm() -> bool:
            nonlocal reminders
            self._raise_if_one_ended()
            if time.monotonic() - started > reminders * REMIND_AFTER_S:
                self._say(f"still loading after {reminders * REMIND_AFTER_S:.0f} s")
                reminders += 1
            return _is_healthy(self._settings.url)

        if wait_until(warm, timeout_s) is not None:
            return False
        if not _is_healthy(self._settings.url):
            tails = "".join(_last_words(child) for child in self._children)
            raise LaunchError(f"No warm answer after {timeout_s} s (LAUNCH_START_TIMEOUT_S).{tails}")
        return True

    def _raise_if_one_ended(self) -> None:
        for child in self._children:
            if how := child.ended():
                raise LaunchError(f"The process {child.name} {how}, so everything is stopped.{_last_words(child)}")

    def _stop(self) -> None:
        """Ends the processes: asked first, and killed where they take too long or a second stop signal comes."""
        for child in reversed(self._children):
            child.ask_to_end()
            if wait_until(child.has_ended, self._settings.launch_stop_timeout_s + KILL_AFTER_S) is not None:
                break
        for child in self._children:
            child.kill()


def _is_healthy(url: str) -> bool:
    try:
        with _HTTP.open(f"{url}/health", timeout=HEALTH_TIMEOUT_S) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _last_words(child: Child) -> str:
    if child.log is None:
        return ""
    tail = child.tail()
    return f"\n--- {child.log}\n{tail}" if tail else f"\n--- {child.log} is empty"
