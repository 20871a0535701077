"""Jobs that are not to be computed any more: late, or given up by their caller."""

from __future__ import annotations

import time

from clef.errors import Cancelled, DeadlinePassed
from clef.scheduler import MAX_TOKEN_CHARS
from tests.clef.desk import LONG_AGO, Desk, Gate, text


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


def test_a_job_that_turns_late_on_the_way_is_dropped(gate: Gate, desk: Desk) -> None:
    answer = desk.ask(text(60), text(9000), deadline=time.time() + 0.05)
    gate.during = lambda lengths: time.sleep(0.1) if lengths == [60] else None
    gate.opened.set()
    assert isinstance(answer.wait(), DeadlinePassed)
    desk.close()
    assert [9000] not in gate.batches


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


def test_a_token_of_any_length_is_not_kept(gate: Gate, desk: Desk) -> None:
    """Of five megabytes each, the tokens that are remembered would be twenty gigabytes."""
    longest, longer = "x" * MAX_TOKEN_CHARS, "x" * (MAX_TOKEN_CHARS + 1)
    given_up, kept = desk.ask(text(50), token=longest), desk.ask(text(60), token=longer)
    for token in (longest, longer):
        desk.scheduler.cancel(token)
    gate.opened.set()
    assert isinstance(given_up.wait(), Cancelled)
    assert kept.scores().batch_size == 1


def test_what_was_given_up_makes_room_though_it_is_not_its_turn(gate: Gate, desk: Desk) -> None:
    left = desk.ask(text(9000), token="left")
    heard: list[bool] = []
    gate.during = lambda lengths: heard.append(bool(left.results)) if lengths == [50] else None
    desk.ask(text(50))
    desk.scheduler.cancel("left")
    gate.opened.set()
    desk.close()
    assert heard == [True] and gate.batches == [[1], [50]]
