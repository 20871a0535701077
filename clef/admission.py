"""How much work is taken at once: all that waits or is computed, from its arrival to its answer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from clef.batch import Record
from clef.errors import Unavailable


class Load(NamedTuple):
    """What a job holds, or what jobs may hold together."""

    records: int
    tokens: int
    patch_bytes: int


def load_of(records: Sequence[Record]) -> Load:
    """The load of one job, whose records may share their images."""
    patches = {id(record.patches): record.patches.nbytes for record in records}
    return Load(len(records), sum(record.length for record in records), sum(patches.values()))


class Admission:
    """The load of the jobs that are there, counted from any thread."""

    def __init__(self, most: Load) -> None:
        self._most = most
        self._held = Load(0, 0, 0)
        self._lock = threading.Lock()
        self.refused = 0  # jobs, since the start

    def enter(self, load: Load) -> None:
        """Take a job, or raise Unavailable.

        Each bound holds by itself, and only for jobs that add to it: text need not wait for images. What one request
        may be is not decided here, so a job is always taken where no other holds anything.
        """
        with self._lock:
            held = Load(*(here + more for here, more in zip(self._held, load, strict=True)))
            if any(here and here < then > most for here, then, most in zip(self._held, held, self._most, strict=True)):
                self.refused += 1
                raise Unavailable(f"{self._held.records} records are being answered, as much as is taken at once")
            self._held = held

    def leave(self, load: Load) -> None:
        """A job that was taken has its answer."""
        with self._lock:
            self._held = Load(*(here - less for here, less in zip(self._held, load, strict=True)))
