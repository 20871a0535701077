"""The shared-memory regions of one launch, known by the beginning of their names.

Triton's Python backend leaves regions in /dev/shm where a stub or the server was killed. Each launch has a prefix of
its own and holds a lock for as long as it or a process that it started lives; regions whose lock nobody holds belong
to a dead launch, and are removed by the next one.
"""

import fcntl
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

SHM = Path("/dev/shm")


@dataclass(frozen=True)
class Regions:
    """Use as a context manager: leaving it removes the regions, so end their processes before."""

    prefix: str
    lock: Path
    descriptor: int
    """Of the lock; processes that may use the regions inherit it, and hold the lock with the launcher."""

    @classmethod
    def claim(cls, locks: Path) -> Self:
        """A new prefix, its lock in the folder `locks`; what dead launches with locks there left is removed first."""
        locks.mkdir(parents=True, exist_ok=True)
        for lock in locks.glob("clef_*.lock"):
            _sweep_if_dead(lock)
        while True:
            prefix = f"clef_{secrets.token_hex(4)}_"
            lock = locks / f"{prefix}.lock"
            descriptor = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Between the two calls another launch may have taken the new lock for a dead one's.
            if lock.exists():
                return cls(prefix, lock, descriptor)
            os.close(descriptor)

    def sweep(self) -> None:
        """Removes the regions."""
        _remove_regions(self.prefix)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sweep()
        self.lock.unlink(missing_ok=True)
        os.close(self.descriptor)


def _sweep_if_dead(lock: Path) -> None:
    with suppress(OSError):  # gone meanwhile, or another user's
        descriptor = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_regions(lock.stem)
            lock.unlink()
        finally:
            os.close(descriptor)


def _remove_regions(prefix: str) -> None:
    for region in SHM.glob(f"{prefix}*"):
        with suppress(OSError):
            region.unlink()
