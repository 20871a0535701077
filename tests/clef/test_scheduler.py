"""Order, deadlines and replies, with a model that costs nothing; the answers themselves, with the real one."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from clef.batch import Record
from clef.errors import Cancelled, ClefError, ComputeFailed, DeadlinePassed, DeviceLost, InvalidRecord, Unavailable
from clef.model import ClefModel
from clef.prefix import Prefix
from clef.scheduler import Job, Scheduler, Scores
from clef.settings import ModelSettings
from tests.clef.golden_records import SHORT_CASES, expected, record
from tests.clef.made_records import made
from tests.golden_cases import tolerance

PATIENCE_S = 60.0
LONG_AGO = 1.0
SPACING = 512


class Gate:
    """A model whose scores are the record's length, and which computes only while it is open."""

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


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def desk(gate: Gate, settings: ModelSettings) -> Iterator[Desk]:
    """Its model is busy with a first record of one token until the gate opens; at the end each job has one answer."""
    desk = Desk(gate, settings)
    desk.ask(made(1, [1]))
    assert gate.entered.wait(PATIENCE_S)
    yield desk
    gate.opened.set()
    desk.close()


def text(length: int) -> Record:
    return made(length, [2])


def test_a_lone_job_is_computed_at_once(gate: Gate, settings: ModelSettings) -> None:
    gate.opened.set()
    desk = Desk(gate, settings)
    scores = desk.ask(made(5, [2, 1])).scores()
    assert scores.logits.tolist() == [5.0] * 3 and scores.batch_size == 1
    desk.close()


def test_short_jobs_are_answered_first(gate: Gate, desk: Desk) -> None:
    order: list[int] = []
    for length in (4000, 250, 4100, 240, 260, 9000):
        desk.scheduler.submit(Job([text(length)], lambda scores, length=length: order.append(length)))
    gate.opened.set()
    desk.close()
    assert gate.batches == [[1], [240, 250, 260], [4000, 4100], [9000]]
    assert order == [240, 250, 260, 4000, 4100, 9000]


def test_new_short_jobs_overtake_waiting_long_ones(gate: Gate, desk: Desk) -> None:
    waiting = [desk.ask(text(length)) for length in (8000, 250, 16000)]
    arrivals = {250: 300, 300: 350}

    def another_arrives(lengths: list[int]) -> None:
        if lengths[0] in arrivals:
            desk.ask(text(arrivals[lengths[0]]))

    gate.during = another_arrives
    gate.opened.set()
    for answer in waiting:
        answer.scores()
    assert gate.batches == [[1], [250], [300], [350], [8000], [16000]]


def test_no_more_than_the_set_number_of_micro_batches_passes_the_oldest(gate: Gate, settings: ModelSettings) -> None:
    desk = Desk(gate, settings.model_copy(update={"max_overtaken": 3}))
    desk.ask(text(1))
    assert gate.entered.wait(PATIENCE_S)
    waiting = [desk.ask(text(length)) for length in (9000, 12000)]
    gate.during = lambda _: desk.ask(text(250)) and None
    gate.opened.set()
    for answer in waiting:
        answer.scores()
    gate.during = lambda _: None
    desk.close()
    # Each long one waits for its turn, and no two of them come in a row while a short one waits.
    assert [max(lengths) for lengths in gate.batches[:9]] == [1, 250, 250, 250, 9000, 250, 250, 250, 12000]


def test_a_late_job_is_not_computed(gate: Gate, desk: Desk) -> None:
    late = desk.ask(text(50), deadline=LONG_AGO)
    in_time = desk.ask(text(60), deadline=time.time() + 3600)
    gate.opened.set()
    assert isinstance(late.wait(), DeadlinePassed)
    assert in_time.scores().logits.tolist() == [60.0, 60.0]
    assert gate.batches == [[1], [60]]


def test_a_late_job_hears_so_while_others_go_before_it(gate: Gate, desk: Desk) -> None:
    late = desk.ask(text(9000), deadline=LONG_AGO)
    heard: list[bool] = []
    gate.during = lambda lengths: heard.append(bool(late.results)) if lengths == [50] else None
    desk.ask(text(50))
    gate.opened.set()
    desk.close()
    assert heard == [True]


def test_a_cancelled_job_is_not_computed(gate: Gate, desk: Desk) -> None:
    given_up = desk.ask(text(50), cancelled=lambda: True)
    kept = desk.ask(text(60))
    gate.opened.set()
    assert isinstance(given_up.wait(), Cancelled)
    assert kept.scores().batch_size == 1
    assert gate.batches == [[1], [60]]


def test_a_token_gives_up_what_waits_and_what_is_still_to_come(gate: Gate, desk: Desk) -> None:
    waiting = desk.ask(text(50), token="left")
    desk.scheduler.cancel("left")
    desk.scheduler.cancel("early")
    to_come = desk.ask(text(51), token="early")
    others = [desk.ask(text(60), token="another"), desk.ask(text(61))]
    gate.opened.set()
    assert [type(answer.wait()) for answer in (waiting, to_come)] == [Cancelled, Cancelled]
    assert [answer.scores().batch_size for answer in others] == [2, 2]
    assert gate.batches == [[1], [60, 61]]


def test_what_was_given_up_makes_room_though_it_is_not_its_turn(gate: Gate, desk: Desk) -> None:
    left = desk.ask(text(9000), token="left")
    heard: list[bool] = []
    gate.during = lambda lengths: heard.append(bool(left.results)) if lengths == [50] else None
    desk.ask(text(50))
    desk.scheduler.cancel("left")
    gate.opened.set()
    desk.close()
    assert heard == [True] and gate.batches == [[1], [50]]


@pytest.fixture
def small(gate: Gate, settings: ModelSettings) -> Iterator[Desk]:
    """A scheduler with room for little, whose model is busy with a first record of one token."""
    bounds = {"max_waiting_records": 4, "max_waiting_tokens": 1000, "max_waiting_patches_bytes": 2 * 768}
    desk = Desk(gate, settings.model_copy(update=bounds))
    desk.ask(made(1, [1]))
    assert gate.entered.wait(PATIENCE_S)
    yield desk
    gate.opened.set()
    desk.close()


@pytest.mark.parametrize("lengths", [[10] * 4, [500, 500], [5, 5, 985, 6]], ids=["records", "tokens", "either"])
def test_a_job_that_finds_no_room_is_refused_at_once(gate: Gate, small: Desk, lengths: list[int]) -> None:
    *taken, last = [small.ask(text(length)) for length in lengths]
    assert isinstance(last.wait(), Unavailable)
    assert not any(answer.results for answer in taken)
    assert small.scheduler.refused == 1
    gate.opened.set()
    for answer in taken:
        answer.scores()
    # As before: there is room for as much again, and once more.
    for _ in range(2):
        gate.opened.clear()
        more = [small.ask(text(length)) for length in lengths[:-1]]
        assert not any(answer.results for answer in more)
        gate.opened.set()
        for answer in more:
            answer.scores()


def test_a_job_of_many_records_is_one_refusal(gate: Gate, small: Desk) -> None:
    taken, refused = small.ask(text(5), text(6)), small.ask(text(5), text(6))
    assert isinstance(refused.wait(), Unavailable)
    gate.opened.set()
    taken.scores()


def with_patches(count: int) -> Record:
    grid = np.array([[1, 2, count // 2]], np.int32)
    return replace(text(60), patches=np.zeros((count, 768), np.uint8), image_grid=grid)


def test_images_find_no_room_where_text_does(gate: Gate, small: Desk) -> None:
    first = small.ask(with_patches(4), token="left")  # more than there ever is, but there is no other
    refused, taken = small.ask(with_patches(4)), small.ask(text(60))
    assert isinstance(refused.wait(), Unavailable)
    small.scheduler.cancel("left")
    gate.opened.set()
    assert isinstance(first.wait(), Cancelled)
    taken.scores()
    small.ask(with_patches(4)).scores()


def test_one_job_alone_may_be_any_size(gate: Gate, settings: ModelSettings) -> None:
    desk = Desk(gate, settings.model_copy(update={"max_waiting_records": 1, "max_waiting_tokens": 1}))
    gate.opened.set()
    assert desk.ask(text(60), text(70)).scores().logits.tolist() == [60.0, 60.0, 70.0, 70.0]
    desk.close()


def test_every_way_to_an_answer_makes_room_again(gate: Gate, small: Desk) -> None:
    gone = [small.ask(text(50), deadline=LONG_AGO), small.ask(text(51), cancelled=lambda: True)]
    bad = small.ask()
    gate.opened.set()
    assert [type(answer.wait()) for answer in (*gone, bad)] == [DeadlinePassed, Cancelled, InvalidRecord]
    small.ask(text(500)).scores()
    gate.opened.clear()
    taken = [small.ask(text(200)) for _ in range(4)]
    gate.opened.set()
    for answer in taken:
        answer.scores()


def test_a_job_of_several_records_is_answered_once_in_their_order(gate: Gate, desk: Desk) -> None:
    answer = desk.ask(made(9000, [1]), made(60, [2]), made(70, [1]))
    gate.opened.set()
    scores = answer.scores()
    assert scores.logits.tolist() == [9000.0, 60.0, 60.0, 70.0]
    assert scores.batch_size == 1
    assert gate.batches == [[1], [60, 70], [9000]]


def test_a_job_that_turns_late_on_the_way_is_dropped(gate: Gate, desk: Desk) -> None:
    answer = desk.ask(text(60), text(9000), deadline=time.time() + 0.05)
    gate.during = lambda lengths: time.sleep(0.1) if lengths == [60] else None
    gate.opened.set()
    assert isinstance(answer.wait(), DeadlinePassed)
    desk.close()
    assert [9000] not in gate.batches


def test_times_add_up(gate: Gate, desk: Desk) -> None:
    started = time.monotonic()
    answer = desk.ask(text(60), text(9000))
    gate.during = lambda _: time.sleep(0.02)
    time.sleep(0.03)
    gate.opened.set()
    scores = answer.scores()
    total = (time.monotonic() - started) * 1e3
    assert scores.queue_ms >= 30 and scores.compute_ms >= 40
    assert scores.queue_ms + scores.compute_ms <= total


def test_a_job_without_records_is_refused(desk: Desk) -> None:
    assert isinstance(desk.ask().wait(), InvalidRecord)


def test_one_bad_record_refuses_its_job_alone(gate: Gate, desk: Desk) -> None:
    bad = made(5, [1])
    bad.option_counts[0] = 7
    refused, taken = desk.ask(text(60), bad), desk.ask(text(60))
    assert isinstance(refused.wait(), InvalidRecord)
    gate.opened.set()
    assert taken.scores().batch_size == 1


def test_closing_finishes_what_waits_and_takes_no_more(gate: Gate, desk: Desk) -> None:
    waiting = [desk.ask(text(length)) for length in (60, 9000, 16000)]
    closer = threading.Thread(target=desk.scheduler.close)
    closer.start()
    while not isinstance(refused := desk.ask(text(20000)), Answer) or not refused.results:
        time.sleep(0.001)
    gate.opened.set()
    closer.join(PATIENCE_S)
    assert isinstance(refused.results[0], Unavailable)
    assert [int(answer.scores().logits[0]) for answer in waiting] == [60, 9000, 16000]
    desk.scheduler.close()


def test_a_caller_that_fails_stops_no_one(gate: Gate, desk: Desk) -> None:
    def broken(*_: object) -> bool:
        raise OSError("the caller is gone")

    desk.scheduler.submit(Job([text(60)], broken))
    odd = desk.ask(text(62), cancelled=broken)
    other = desk.ask(text(61))
    gate.opened.set()
    assert odd.scores().batch_size == other.scores().batch_size == 3


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


def stated(rest: int, state: int, length: int = 4000) -> Record:
    """A record with a state of its own kind before its schema."""
    asked = made(length + rest, [2])
    ids = np.where(np.arange(length + rest) < length, np.int32(state), asked.input_ids)
    return replace(asked, input_ids=ids, state_end=length)


def test_records_of_one_state_go_together_and_what_is_left_of_them_decides(gate: Gate, desk: Desk) -> None:
    waiting = [desk.ask(stated(60, 1)), desk.ask(stated(50, 2)), desk.ask(text(500)), desk.ask(stated(40, 1))]

    def more_arrive(lengths: list[int]) -> None:
        if lengths == [4040, 4060]:
            waiting.extend([desk.ask(text(500)), desk.ask(stated(70, 1))])

    gate.during = more_arrive
    gate.opened.set()
    for answer in waiting:
        answer.scores()
    desk.scheduler.close()
    assert gate.batches == [[1], [500], [4040, 4060], [4070], [500], [4050]]


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


def test_eight_threads_get_each_of_their_answers_once(model: ClefModel, settings: ModelSettings) -> None:
    desk = Desk(model, settings)

    def submit(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(6):
            names = chance.choices(SHORT_CASES, k=chance.choice([1, 1, 1, 3]))
            asked.append((names, desk.ask(*(record(name) for name in names))))
            time.sleep(chance.random() * 0.01)

    asked: list[tuple[list[str], Answer]] = []
    threads = [threading.Thread(target=submit, args=[seed]) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    desk.close()
    assert len(asked) == 48
    for names, answer in asked:
        wanted = np.concatenate([expected(name) for name in names])
        atol = max(tolerance(name) for name in names)
        np.testing.assert_allclose(answer.scores().logits, wanted, atol=atol, rtol=0)
    assert max(answer.scores().batch_size for _, answer in asked) > 1
