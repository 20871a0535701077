"""What fails, fails alone: records, callers, scores; with the device goes everything."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from clef.batch import Record
from clef.errors import ComputeFailed, DeviceLost, InvalidRecord, Unavailable
from clef.model import ClefModel
from clef.prefix import Prefix
from clef.scheduler import Job, Scores
from clef.settings import ModelSettings
from tests.clef.desk import PATIENCE_S, Desk, Gate, text
from tests.clef.golden_records import expected, record
from tests.clef.made_records import made


def test_a_job_without_records_is_refused(desk: Desk) -> None:
    assert isinstance(desk.ask().wait(), InvalidRecord)


def test_one_bad_record_refuses_its_job_alone(gate: Gate, desk: Desk) -> None:
    bad = made(5, [1])
    bad.option_counts[0] = 7
    refused, taken = desk.ask(text(60), bad), desk.ask(text(60))
    assert isinstance(refused.wait(), InvalidRecord)
    gate.opened.set()
    assert taken.scores().batch_size == 1


def test_a_caller_that_fails_stops_no_one(gate: Gate, desk: Desk) -> None:
    def broken(_: object) -> None:
        raise OSError("the caller is gone")

    desk.scheduler.submit(Job([text(60)], broken))
    other = desk.ask(text(61))
    gate.opened.set()
    assert other.scores().batch_size == 2


def test_scores_that_are_not_finite_fail_their_record_alone(gate: Gate, settings: ModelSettings) -> None:
    class Sick(Gate):
        def score(self, records: Sequence[Record], prefix: Prefix | None = None) -> list[np.ndarray]:
            return [logits * (np.nan if logits[0] == 61 else 1) for logits in super().score(records, prefix)]

    sick = Sick()
    desk = Desk(sick, settings)
    answers = [desk.ask(text(length)) for length in (1, 60, 61, 62)]
    sick.opened.set()
    desk.close()
    assert [type(answer.wait()) for answer in answers] == [Scores, Scores, ComputeFailed, Scores]


def test_a_lost_device_fails_all_and_is_told(gate: Gate, settings: ModelSettings) -> None:
    told = threading.Event()

    def lose(_: list[int]) -> None:
        raise DeviceLost("gone")

    gate.during = lose
    desk = Desk(gate, settings, on_device_lost=told.set)
    desk.ask(text(1))
    assert gate.entered.wait(PATIENCE_S)
    desk.ask(text(60), text(9000))
    gate.opened.set()
    assert told.wait(PATIENCE_S)
    desk.ask(text(70))
    desk.close()
    assert {type(answer.wait()) for answer in desk.answers} == {Unavailable}
    assert gate.batches == [[1]]


class Allergic(ClefModel):
    """The real model, but for records of one length, which it cannot take."""

    forbidden = 31

    def score(self, records: Sequence[Record], prefix: Prefix | None = None) -> list[np.ndarray]:
        if any(record.length == self.forbidden for record in records):
            raise RuntimeError("of all things")
        return super().score(records, prefix)


def test_a_failing_record_fails_alone(settings: ModelSettings) -> None:
    desk = Desk(Allergic.load(settings, "cpu"), settings)
    names = ["noul-only", "choice-only", "score-only", "unicode"]
    good = [desk.ask(record(name)) for name in names]
    bad = [desk.ask(made(31, [2])), desk.ask(record("noul-only"), made(31, [1]))]
    desk.close()
    for name, answer in zip(names, good, strict=True):
        np.testing.assert_allclose(answer.scores().logits, expected(name), atol=1e-4, rtol=0)
    assert [type(answer.wait()) for answer in bad] == [ComputeFailed, ComputeFailed]
