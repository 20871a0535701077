"""Processes of one service on this machine: started together, watched, stopped together.

They are stopped in the reverse of their order, each after the one before has ended: the frontend first, so that the
answers it still owes arrive. A process that ends by itself ends the whole.
"""

import time
from collections.abc import Callable, Sequence

from launch.errors import LaunchError
from launch.process import STOP_SIGNALS, Child, next_signal, wait_until

REMIND_AFTER_S = 30


class Supervisor:
    """Call `block_signals` before; signals are waited for here."""

    def __init__(
        self,
        children: Sequence[Child],
        is_warm: Callable[[], bool],
        say: Callable[[str], None],
        start_timeout_s: float,
        stop_timeout_s: float,
    ) -> None:
        """`say` shows a line to the person who waits; `stop_timeout_s` is for each child, which is then killed."""
        self._children = children
        self._is_warm = is_warm
        self._say = say
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s

    def run(self, when_warm: Callable[[], None]) -> None:
        """Starts everything, calls `when_warm`, and returns once it was asked to stop and all have ended.

        Raises LaunchError where a process ended by itself, or nothing was warm in time.
        """
        try:
            for child in self._children:
                child.start()
            if self._wait_until_warm():
                when_warm()
                while next_signal(timeout_s=60.0) not in STOP_SIGNALS:
                    self._raise_if_one_ended()
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
        tails = "".join(child.last_words() for child in self._children)
        raise LaunchError(f"Nothing was warm after {self._start_timeout_s:.0f} s (LAUNCH_START_TIMEOUT_S).{tails}")

    def _warm_or_dead(self) -> bool:
        self._raise_if_one_ended()
        return self._is_warm()

    def _raise_if_one_ended(self) -> None:
        for child in self._children:
            if how := child.ended():
                raise LaunchError(f"The process {child.name} {how}, so everything is stopped.{child.last_words()}")

    def _stop(self) -> None:
        """Asks each to end and waits for it; a second stop signal kills them all at once."""
        for child in reversed(self._children):
            child.ask_to_end()
            if wait_until(child.has_ended, self._stop_timeout_s) is not None:
                break
        for child in self._children:
            child.kill()
