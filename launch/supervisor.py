"""Processes of one service on this machine: started together, watched, stopped together.

They are stopped in the reverse of their order, each after the one before has ended: the frontend first, so that the
answers it still owes arrive. A process that ends by itself ends the whole, and so does a service that has answered
nothing for a while: a step of Triton's may be gone while Triton lives on.
"""

import time
from collections.abc import Callable, Sequence

from launch.errors import LaunchError
from launch.process import STOP_SIGNALS, Child, next_signal, wait_until

REMIND_AFTER_S = 30
ASK_EVERY_S = 1.0
# For each process of a service that answers nothing: it owes nobody an answer, and a Triton whose step is gone would
# wait for it as long as it may.
HOPELESS_STOP_S = 5.0


class Supervisor:
    """Call `block_signals` before; signals are waited for here."""

    def __init__(
        self,
        children: Sequence[Child],
        is_warm: Callable[[], bool],
        say: Callable[[str], None],
        start_timeout_s: float,
        unhealthy_timeout_s: float,
        stop_timeout_s: float,
    ) -> None:
        """`is_warm` is asked all the time, and tells whether answers come; `say` shows a line to the person who waits;
        `stop_timeout_s` is for each child, which is then killed.
        """
        self._children = children
        self._is_warm = is_warm
        self._say = say
        self._start_timeout_s = start_timeout_s
        self._unhealthy_timeout_s = unhealthy_timeout_s
        self._stop_timeout_s = stop_timeout_s

    def run(self, when_warm: Callable[[], None]) -> None:
        """Starts everything, calls `when_warm`, and returns once it was asked to stop and all have ended.

        Raises LaunchError where a process ended by itself, nothing was warm in time, or it stopped answering.
        """
        try:
            for child in self._children:
                child.start()
            if self._wait_until_warm():
                when_warm()
                self._watch()
            self._say("stopping")
        finally:
            self._stop()

    def _wait_until_warm(self) -> bool:
        """False where a stop signal came first."""
        deadline = time.monotonic() + self._start_timeout_s
        waited_s = 0
        while (left := deadline - time.monotonic()) > 0:
            if wait_until(self._warm_or_dead, min(REMIND_AFTER_S, left)) is not None:
                return False
            if self._warm_or_dead():
                return True
            waited_s += REMIND_AFTER_S
            self._say(f"still starting after {waited_s} s")
        raise LaunchError(
            f"Nothing was warm after {self._start_timeout_s:.0f} s (LAUNCH_START_TIMEOUT_S).{self._last_words()}"
        )

    def _watch(self) -> None:
        """Returns with a stop signal."""
        # Of the first question without an answer, not of the last with one: a machine that slept is asked once more.
        unhealthy_since: float | None = None
        while next_signal(ASK_EVERY_S) not in STOP_SIGNALS:
            if self._warm_or_dead():
                unhealthy_since = None
                continue
            unhealthy_since = unhealthy_since or time.monotonic()
            if time.monotonic() - unhealthy_since > self._unhealthy_timeout_s:
                self._stop_timeout_s = min(self._stop_timeout_s, HOPELESS_STOP_S)
                names = ", then ".join(f"{child.name}'s" for child in self._children)
                raise LaunchError(
                    f"Nothing was answered for {self._unhealthy_timeout_s:.0f} s (LAUNCH_UNHEALTHY_TIMEOUT_S), though "
                    "every process runs, so everything is stopped: a step of Triton's is gone or hangs. Look for it "
                    f"in the logs, {names}.{self._last_words()}"
                )

    def _warm_or_dead(self) -> bool:
        self._raise_if_one_ended()
        return self._is_warm()

    def _raise_if_one_ended(self) -> None:
        for child in self._children:
            if how := child.ended():
                raise LaunchError(f"The process {child.name} {how}, so everything is stopped.{child.last_words()}")

    def _last_words(self) -> str:
        return "".join(child.last_words() for child in self._children)

    def _stop(self) -> None:
        """Asks each to end and waits for it; a second stop signal kills them all at once."""
        for child in reversed(self._children):
            child.ask_to_end()
            if wait_until(child.has_ended, self._stop_timeout_s) is not None:
                break
        for child in self._children:
            child.kill()
