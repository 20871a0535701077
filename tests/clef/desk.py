"""A scheduler whose answers are counted, and a model for it that costs nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clef.batch import Record
from clef.errors import ClefError
from clef.prefix import Prefix
from clef.scheduler import Job, Scheduler, Scores
from clef.settings import ModelSettings
from tests.clef.made_records import made

PATIENCE_S = 60.0
LONG_AGO = 1.0
SPACING = 512


class Gate:
    """A model whose scores are the record's length, and which computes only while it is open."""

    packs = False

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.held: set[Prefix] = set()
        self.opened = threading.Event()
        self.entered = threading.Event()
        self.during: Callable[[list[int]], None] = lambda lengths: None

    def check(self, record: Record) -> None:
        record.check()

    def prefix(self, record: Record) -> Prefix | None:
        return Prefix.of(record, SPACING) if record.state_end else None

    def holds(self, prefix: Prefix) -> bool:
        return prefix in self.held

    def score(self, records: Sequence[Record], prefix: Prefix | None) -> list[np.ndarray]:
        assert {self.prefix(record) for record in records} == {prefix}
        if prefix is not None:
            self.held.add(prefix)
        lengths = [record.length for record in records]
        self.batches.append(lengths)
        self.entered.set()
        assert self.opened.wait(PATIENCE_S)
        self.during(lengths)
        return [np.full(record.options, record.length, np.float32) for record in records]


class Answer:
    """What came back for one job, and how often."""

    def __init__(self) -> None:
        self.results: list[Scores | ClefError] = []
        self._came = threading.Event()

    def __call__(self, result: Scores | ClefError) -> None:
        self.results.append(result)
        self._came.set()

    def wait(self) -> Scores | ClefError:
        assert self._came.wait(PATIENCE_S)
        return self.results[0]

    def scores(self) -> Scores:
        result = self.wait()
        assert isinstance(result, Scores), result
        return result


class Desk:
    """A scheduler and all answers that it owes."""

    def __init__(self, model: Any, settings: ModelSettings, **given: Any) -> None:
        self.scheduler = Scheduler(model, settings, **given)
        self.answers: list[Answer] = []

    def ask(self, *records: Record, **given: Any) -> Answer:
        answer = Answer()
        self.answers.append(answer)
        self.scheduler.submit(Job(records, answer, **given))
        return answer

    def close(self) -> None:
        self.scheduler.close()
        assert [len(answer.results) for answer in self.answers] == [1] * len(self.answers)


def text(length: int) -> Record:
    return made(length, [2])
