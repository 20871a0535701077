"""A few threads for what computes without the interpreter's lock: Pillow's decoders and its resize."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

# One request's images are at most a few, and more bands of one picture gain less each.
MOST = 4

Item = TypeVar("Item")
Made = TypeVar("Made")


class Threads:
    """As many as there are processors for this process, four at most, the calling one among them. The others start
    with the first work, and end with this object or the process."""

    def __init__(self, count: int | None = None) -> None:
        self.count = min(MOST, len(os.sched_getaffinity(0))) if count is None else count
        self._pool = ThreadPoolExecutor(self.count - 1, "images") if self.count > 1 else None

    def map(self, call: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
        """What `call` makes of each, in order. Raises the error of the first item that has one.

        Nothing runs any more by then. A call must not come back here: it could wait for itself.
        """
        if self._pool is None:
            return [call(item) for item in items]
        waiting = deque(enumerate(items))
        made: dict[int, Made] = {}
        wrong: dict[int, Exception] = {}

        def work() -> None:
            # In order, so that every item before a wrong one was taken, and is finished.
            while not wrong:
                try:
                    index, item = waiting.popleft()
                except IndexError:
                    return
                try:
                    made[index] = call(item)
                except Exception as error:
                    wrong[index] = error

        helpers = [self._pool.submit(work) for _ in range(min(self.count, len(waiting)) - 1)]
        work()
        for helper in helpers:
            # One that was not woken so far finds nothing to do.
            if not helper.cancel():
                helper.result()
        if wrong:
            try:
                raise wrong[min(wrong)]
            finally:
                # Errors hold frames, and frames this: together they would keep whole pictures until a collection.
                wrong.clear()
        return [made[index] for index in sorted(made)]


ALONE = Threads(1)
"""The calling thread, and no other."""
