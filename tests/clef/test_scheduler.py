"""Which records go together and when, and what each job hears, with a model that costs nothing."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from clef.batch import Record
from clef.errors import Unavailable
from clef.scheduler import Job
from clef.settings import ModelSettings
from tests.clef.desk import PATIENCE_S, Desk, Gate, text
from tests.clef.made_records import made


def test_a_lone_job_is_computed_at_once(gate: Gate, settings: ModelSettings) -> None:
    gate.opened.set()
    desk = Desk(gate, settings)
    scores = desk.ask(made(5, [2, 1])).scores()
    assert scores.logits.tolist() == [5.0] * 3 and scores.batch_size == 1
    desk.close()


def test_short_jobs_are_answered_first(gate: Gate, desk: Desk) -> None:
    order: list[int] = []
    for length in (800, 250, 900, 240, 260, 9000):
        desk.scheduler.submit(Job([text(length)], lambda scores, length=length: order.append(length)))
    gate.opened.set()
    desk.close()
    assert gate.batches == [[1], [240, 250, 260], [800, 900], [9000]]
    assert order == [240, 250, 260, 800, 900, 9000]


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


def test_a_job_of_several_records_is_answered_once_in_their_order(gate: Gate, desk: Desk) -> None:
    answer = desk.ask(made(9000, [1]), made(60, [2]), made(70, [1]))
    gate.opened.set()
    scores = answer.scores()
    assert scores.logits.tolist() == [9000.0, 60.0, 60.0, 70.0]
    assert scores.batch_size == 1
    assert gate.batches == [[1], [60, 70], [9000]]


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


def test_closing_finishes_what_waits_and_takes_no_more(gate: Gate, desk: Desk) -> None:
    waiting = [desk.ask(text(length)) for length in (60, 9000, 16000)]
    closer = threading.Thread(target=desk.scheduler.close)
    closer.start()
    while not (refused := desk.ask(text(20000))).results:
        time.sleep(0.001)
    gate.opened.set()
    closer.join(PATIENCE_S)
    assert isinstance(refused.results[0], Unavailable)
    assert [int(answer.scores().logits[0]) for answer in waiting] == [60, 9000, 16000]
    desk.scheduler.close()


@pytest.mark.parametrize(("packs", "batches"), [(True, [[40, 190]]), (False, [[40], [190]])])
def test_a_model_that_packs_takes_less_alike_records_together(
    gate: Gate, settings: ModelSettings, packs: bool, batches: list[list[int]]
) -> None:
    gate.packs = packs
    desk = Desk(gate, settings)
    first = desk.ask(text(1))
    assert gate.entered.wait(PATIENCE_S)
    waiting = [desk.ask(text(length)) for length in (190, 40)]
    gate.opened.set()
    for answer in (first, *waiting):
        answer.scores()
    desk.close()
    assert gate.batches[1:] == batches


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
