"""How much is taken at once, and that each job that ends makes room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from clef.batch import Record
from clef.errors import Cancelled, DeadlinePassed, InvalidRecord, Unavailable
from clef.settings import ModelSettings
from tests.clef.desk import LONG_AGO, PATIENCE_S, Desk, Gate, text
from tests.clef.made_records import made


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
    gone = [small.ask(text(50), deadline=LONG_AGO), small.ask(text(51), token="gone")]
    small.scheduler.cancel("gone")
    bad = small.ask()
    gate.opened.set()
    assert [type(answer.wait()) for answer in (*gone, bad)] == [DeadlinePassed, Cancelled, InvalidRecord]
    small.ask(text(500)).scores()
    gate.opened.clear()
    taken = [small.ask(text(200)) for _ in range(4)]
    gate.opened.set()
    for answer in taken:
        answer.scores()
