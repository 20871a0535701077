"""Decides what is computed next: one worker thread over everything that waits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from clef.batch import Record
from clef.settings import ModelSettings


class Scorer(Protocol):
    """What the scheduler needs of a model (`ClefModel`)."""

    def check(self, record: Record) -> None: ...

    def score(self, records: Sequence[Record]) -> list[NDArray[np.float32]]: ...


@dataclass(frozen=True, slots=True)
class Scores:
    """The answer to one job."""

    logits: NDArray[np.float32]  # [O] over the job's records, in order
    queue_ms: float  # from submit to the answer, less compute_ms
    compute_ms: float  # the micro-batches that held the job's records
    batch_size: int  # records in the micro-batch that held the job's last record


Reply = Callable[[Scores | Exception], None]


@dataclass(frozen=True, eq=False, slots=True)
class Job:
    """One request: its records, and where the answer goes."""

    records: Sequence[Record]
    reply: Reply
    """Called exactly once, from the worker's thread or from `submit`; must not block. The exceptions: `InvalidRecord`,
    `DeadlinePassed`, `Cancelled`, `ComputeFailed`, `Unavailable`."""
    deadline: float | None = None
    """Unix seconds."""
    cancelled: Callable[[], bool] = lambda: False


class Scheduler:
    """Takes jobs from any thread and answers each as soon as its last record is computed, short ones first."""

    def __init__(
        self, model: Scorer, settings: ModelSettings, on_device_lost: Callable[[], None] = lambda: None
    ) -> None:
        raise NotImplementedError

    def submit(self, job: Job) -> None:
        """Queue the job; returns at once."""
        raise NotImplementedError

    def close(self) -> None:
        """Refuse new jobs, finish what waits, end the worker."""
        raise NotImplementedError
