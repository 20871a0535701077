"""Which requests are with a step: what tells load from a step that hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class InFlight:
    """Counts from any thread."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def until(self, answer: Callable[[T], None]) -> Callable[[T], None]:
        """Count one request more, until the function that is returned here answers it."""
        self._add(1)

        def counted(result: T) -> None:
            self._add(-1)
            answer(result)

        return counted

    def _add(self, number: int) -> None:
        with self._lock:
            self.count += number
