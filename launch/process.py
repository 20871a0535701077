"""A child process that ends with the launcher, whatever ends the launcher."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from launch.triton import REPOSITORY_ROOT

STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
WATCHED_SIGNALS = STOP_SIGNALS | {signal.SIGCHLD}
PR_SET_PDEATHSIG = 1
LOG_BYTES = 200_000
SHOWN_LINES = 15


class Child:
    """One process in a session of its own, so that Ctrl-C in a terminal reaches the launcher alone."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path | None = None,
        summary: Callable[[str], str] | None = None,
        keep_open: Sequence[int] = (),
    ) -> None:
        """`log` None: what it writes goes to the launcher's stderr. It inherits the descriptors in `keep_open`.

        `summary` shortens its log for a person whom it has failed; None takes the last lines.
        """
        self.name = name
        self._log = log
        self._summary = summary or last_lines
        self._keep_open = keep_open
        self._command = list(command)
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, with a new log."""
        output = sys.stderr.buffer if self._log is None else self._log.open("wb")
        try:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=REPOSITORY_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self._keep_open,
                preexec_fn=_end_with_parent(os.getpid()),
            )
        finally:
            if self._log is not None:
                output.close()

    def ended(self) -> str | None:
        """How it ended, in words; None while it runs, and before and after."""
        if self._process is None:
            return None
        # Left a zombie: while it is one, no other process can get its number, which `kill` goes by.
        end = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if end is None:
            return None
        if end.si_code == os.CLD_EXITED:
            return f"ended with exit status {end.si_status}"
        return f"was killed by {signal.Signals(end.si_status).name}"

    def has_ended(self) -> bool:
        """Whether nothing of it runs; also true where it never started."""
        return self._process is None or self.ended() is not None

    def ask_to_end(self) -> None:
        """SIGTERM to the process, which knows how to end its own."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the whole session, also to what a dead leader left behind."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def last_words(self) -> str:
        """The end of its log, summarized; empty where it has no log of its own."""
        if self._log is None or not self._log.exists():
            return ""
        text = self._log.read_bytes()[-LOG_BYTES:].decode(errors="replace")
        return f"\n{self._summary(text)}\n(the whole log: {self._log})"


def last_lines(log: str) -> str:
    """The lines at the end of a log."""
    return "\n".join(log.splitlines()[-SHOWN_LINES:])


def block_signals() -> None:
    """From now on signals are waited for by `next_signal`, and interrupt nothing."""
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED_SIGNALS)


def next_signal(timeout_s: float) -> signal.Signals | None:
    """The next stop signal, or SIGCHLD where a child ended; None after `timeout_s`."""
    info = signal.sigtimedwait(WATCHED_SIGNALS, timeout_s)
    return None if info is None else signal.Signals(info.si_signo)


def wait_until(condition: Callable[[], bool], timeout_s: float) -> signal.Signals | None:
    """Waits for the condition; returns early with a stop signal that came."""
    deadline = time.monotonic() + timeout_s
    while not condition() and (left := deadline - time.monotonic()) > 0:
        received = next_signal(min(left, 0.2))
        if received in STOP_SIGNALS:
            return received
    return None


def _end_with_parent(parent: int) -> Callable[[], None]:
    """For the child, between fork and exec: unblock signals; die when the launcher dies, also by SIGKILL."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED_SIGNALS)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return prepare
