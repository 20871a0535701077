"""Decides what is computed next: one worker thread over everything that waits.

Nothing is held back for company: whatever waits when the worker is free is planned at once, so a lone job starts
immediately and a busy model finds its next batch already there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from clef.admission import Admission, Load, load_of
from clef.batch import Record
from clef.errors import Cancelled, ClefError, ComputeFailed, DeadlinePassed, DeviceLost, InvalidRecord, Unavailable
from clef.planner import Limits, Waiting, next_batch
from clef.prefix import Prefix
from clef.settings import ModelSettings

Logits = NDArray[np.float32]
log = logging.getLogger(__name__)

# A token may arrive before its job, which is still being read: so many are remembered, the oldest forgotten first.
REMEMBERED_TOKENS = 4096
# A longer one gives up nothing: thousands of any length would be kept.
MAX_TOKEN_CHARS = 128


class Scorer(Protocol):
    """What the scheduler needs of a model (`ClefModel`)."""

    packs: bool
    """Whether it computes records end to end, without padding."""

    def check(self, record: Record) -> None:
        """Raises InvalidRecord."""

    def prefix(self, record: Record) -> Prefix | None:
        """What a checked record may be continued from."""

    def holds(self, prefix: Prefix) -> bool:
        """Whether that is computed already."""

    def score(self, records: Sequence[Record], prefix: Prefix | None) -> list[Logits]:
        """The logits of each record, all of which have this prefix."""


@dataclass(frozen=True, eq=False, slots=True)
class Scores:
    """The answer to one job."""

    logits: Logits  # [O] over the job's records, in order
    queue_ms: float  # from submit to the answer, less compute_ms
    compute_ms: float  # the micro-batches that held the job's records
    batch_size: int  # records in the micro-batch that held the job's last record


@dataclass(frozen=True, eq=False, slots=True)
class Job:
    """One request: its records, and where the answer goes."""

    records: Sequence[Record]
    reply: Callable[[Scores | ClefError], None]
    """Called exactly once, by the worker or by `submit`; should not block. The errors: `InvalidRecord`,
    `DeadlinePassed`, `Cancelled`, `ComputeFailed`, `Unavailable`."""
    deadline: float | None = None
    """Unix seconds."""
    token: str | None = None
    """What `Scheduler.cancel` knows it by."""


@dataclass(eq=False, slots=True)
class _Progress:
    """A job under way. `submit` may refuse it; once it waits, only the worker changes it."""

    job: Job
    submitted: float
    answering: Callable[[], None]
    """Called right before the one answer."""
    logits: dict[int, Logits] = field(default_factory=dict)
    compute: float = 0.0
    answered: bool = False

    def answer(self, result: Scores | ClefError) -> None:
        if self.answered:
            return
        self.answered = True
        self.answering()
        try:
            self.job.reply(result)
        except Exception:
            # The caller's own failure must not stop the worker, which others wait for.
            log.exception("a reply failed")

    def take(self, index: int, logits: Logits, batch_size: int) -> None:
        """Keep the logits of one record; with the last one the job is answered."""
        self.logits[index] = logits
        if len(self.logits) == len(self.job.records):
            queued = time.monotonic() - self.submitted - self.compute
            ordered = np.concatenate([self.logits[place] for place in range(len(self.logits))])
            self.answer(Scores(ordered, queued * 1e3, self.compute * 1e3, batch_size))


@dataclass(frozen=True, eq=False, slots=True)
class _Item:
    """One waiting record."""

    progress: _Progress
    index: int
    record: Record
    size: Waiting

    def is_late(self, now: float) -> bool:
        deadline = self.progress.job.deadline
        return deadline is not None and deadline <= now


class Scheduler:
    """Takes jobs from any thread and answers each as soon as its last record is computed, short ones first."""

    def __init__(
        self, model: Scorer, settings: ModelSettings, on_device_lost: Callable[[], None] = lambda: None
    ) -> None:
        """`on_device_lost` is called by the worker after it has failed every job; the process should end then."""
        self._model = model
        self._limits = Limits(settings.batch_tokens, settings.batch_records, model.packs)
        self._max_overtaken = settings.max_overtaken
        self._admission = Admission(
            Load(settings.max_waiting_records, settings.max_waiting_tokens, settings.max_waiting_patches_bytes)
        )
        self._on_device_lost = on_device_lost
        self._waiting: list[_Item] = []  # oldest first
        self._oldest: _Item | None = None
        self._overtaken = 0  # micro-batches that passed the oldest
        self._given_up: OrderedDict[str | None, None] = OrderedDict()  # tokens, oldest first
        self._changed = threading.Condition()
        self._closing = self._lost = False
        self._worker = threading.Thread(target=self._work, name="clef-scheduler", daemon=True)
        self._worker.start()

    def submit(self, job: Job) -> None:
        """Queue the job; returns at once."""
        try:
            if not job.records:
                raise InvalidRecord("a job needs a record")
            for record in job.records:
                self._model.check(record)
            sizes = [Waiting(each.length, each.has_media, self._model.prefix(each)) for each in job.records]
            load = load_of(job.records)
            self._admission.enter(load)
        except ClefError as error:
            _Progress(job, time.monotonic(), lambda: None).answer(error)
            return
        progress = _Progress(job, time.monotonic(), lambda: self._admission.leave(load))
        rows = enumerate(zip(job.records, sizes, strict=True))
        items = [_Item(progress, index, record, size) for index, (record, size) in rows]
        with self._changed:
            refused = "the device is lost" if self._lost else "shutting down" if self._closing else None
            if refused is None:
                self._waiting += items
                self._changed.notify()
        if refused is not None:
            progress.answer(Unavailable(refused))

    @property
    def waiting(self) -> int:
        """Records that wait."""
        return len(self._waiting)

    @property
    def refused(self) -> int:
        """Jobs that found no room, since the start."""
        return self._admission.refused

    def cancel(self, token: str) -> None:
        """Give up the job of this token, whether it waits or is still to come; one that runs is finished."""
        if len(token) > MAX_TOKEN_CHARS:
            return
        with self._changed:
            self._given_up[token] = None
            if len(self._given_up) > REMEMBERED_TOKENS:
                self._given_up.popitem(last=False)

    def close(self) -> None:
        """Refuse new jobs, finish what waits, end the worker."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._worker.join()

    def _work(self) -> None:
        while (items := self._next()) is not None:
            try:
                self._run(items)
            except DeviceLost as error:
                self._lose_device(items, error)
                return

    def _next(self) -> list[_Item] | None:
        """The next micro-batch, maybe empty; None once nothing more will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if not self._waiting:
                return None
            now = time.time()
            ends = [(item, self._end(item, now)) for item in self._waiting]
            self._waiting = [item for item, end in ends if end is None and not item.progress.answered]
            items = self._pick()
        for item, end in ends:
            if end is not None:
                item.progress.answer(end)
        return items

    def _end(self, item: _Item, now: float) -> ClefError | None:
        """Why a waiting record is not to be computed any more."""
        if item.is_late(now):
            return DeadlinePassed("the deadline passed before the answer was computed")
        if item.progress.job.token in self._given_up:
            return Cancelled("given up by its caller")
        return None

    def _pick(self) -> list[_Item]:
        """Take the next micro-batch out of what waits."""
        if not self._waiting:
            return []
        if self._waiting[0] is not self._oldest:
            self._oldest, self._overtaken = self._waiting[0], 0
        places = next_batch(
            [item.size for item in self._waiting],
            self._limits,
            oldest_leads=self._overtaken >= self._max_overtaken,
            holds=self._model.holds,
        )
        self._overtaken += 1
        taken = set(places)
        items = [self._waiting[place] for place in places]
        self._waiting = [item for place, item in enumerate(self._waiting) if place not in taken]
        return items

    def _run(self, items: Sequence[_Item]) -> None:
        items = [item for item in items if not item.progress.answered]
        if not items:
            return
        started = time.monotonic()
        try:
            results = self._model.score([item.record for item in items], items[0].size.prefix)
        except DeviceLost:
            raise
        except Exception:
            # Whatever it was, it must cost no one but the record that caused it.
            log.exception("a micro-batch of %d records failed", len(items))
            if len(items) == 1:
                items[0].progress.answer(ComputeFailed("the forward pass failed"))
                return
            for item in items:
                self._run([item])
            return
        spent = time.monotonic() - started
        for progress in {item.progress for item in items}:
            progress.compute += spent
        for item, logits in zip(items, results, strict=True):
            if np.isfinite(logits).all():
                item.progress.take(item.index, logits, len(items))
            else:
                log.error("a record of %d tokens has scores that are not finite", item.record.length)
                item.progress.answer(ComputeFailed("the scores are not finite"))

    def _lose_device(self, items: Sequence[_Item], error: DeviceLost) -> None:
        log.critical("the device is lost", exc_info=error)
        with self._changed:
            self._lost = True
            left, self._waiting = self._waiting, []
        for item in [*items, *left]:
            item.progress.answer(Unavailable("the device is lost"))
        self._on_device_lost()
