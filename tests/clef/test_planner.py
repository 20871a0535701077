from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clef.planner import ENOUGH_TOKENS, FREE_TOKENS, SHARE, SLACK_TOKENS, STRETCH, Limits, Waiting, alike, next_batch
from clef.prefix import Prefix

LENGTHS = st.integers(1, 400) | st.integers(1, 20_000)
QUEUES = st.lists(st.builds(Waiting, LENGTHS, st.booleans()), min_size=1, max_size=40)
LIMITS = st.builds(Limits, tokens=st.integers(1, 20_000), records=st.integers(1, 32), packed=st.booleans())


def queue(*lengths: int) -> list[Waiting]:
    return [Waiting(length) for length in lengths]


def fits(lengths: list[int], limits: Limits) -> bool:
    """Whether the limits let records of these lengths go together."""
    tokens = sum(lengths) if limits.packed else max(lengths) * len(lengths)
    together = alike(min(lengths), max(lengths)) or (limits.packed and tokens <= FREE_TOKENS)
    bounded = tokens <= limits.tokens and len(lengths) <= limits.records and max(lengths) < ENOUGH_TOKENS
    return bounded and together


def lengths_of(chosen: list[int], waiting: list[Waiting]) -> list[int]:
    return [waiting[place].length for place in chosen]


@given(QUEUES, LIMITS, st.booleans())
def test_a_micro_batch_keeps_every_bound(waiting: list[Waiting], limits: Limits, oldest_leads: bool) -> None:
    chosen = next_batch(waiting, limits, oldest_leads)
    lengths = lengths_of(chosen, waiting)
    assert len(set(chosen)) == len(chosen) > 0
    assert lengths == sorted(lengths)
    assert len(chosen) == 1 or fits(lengths, limits)
    wasted = max(lengths) * len(chosen) - sum(lengths)
    assert limits.packed or wasted <= (STRETCH - 1) * sum(lengths) + SLACK_TOKENS * len(chosen)
    assert len({waiting[place].has_media for place in chosen}) == 1


@given(QUEUES, LIMITS)
def test_the_shortest_leads_unless_the_oldest_must(waiting: list[Waiting], limits: Limits) -> None:
    shortest = min(record.length for record in waiting)
    assert min(lengths_of(next_batch(waiting, limits), waiting)) == shortest
    assert 0 in next_batch(waiting, limits, oldest_leads=True)


@given(QUEUES, LIMITS, st.booleans())
def test_nothing_that_would_fit_is_left_behind(waiting: list[Waiting], limits: Limits, oldest_leads: bool) -> None:
    chosen = next_batch(waiting, limits, oldest_leads)
    lengths = lengths_of(chosen, waiting)
    for place, record in enumerate(waiting):
        if place in chosen or record.has_media != waiting[chosen[0]].has_media:
            continue
        assert not fits([*lengths, record.length], limits)


@given(QUEUES, LIMITS, st.randoms(use_true_random=False))
def test_a_queue_drains_whoever_leads(waiting: list[Waiting], limits: Limits, chance: object) -> None:
    left = list(range(len(waiting)))
    done: list[int] = []
    while left:
        chosen = next_batch([waiting[place] for place in left], limits, chance.random() < 0.5)  # type: ignore[attr-defined]
        done += [left[place] for place in chosen]
        left = [place for index, place in enumerate(left) if index not in chosen]
    assert sorted(done) == list(range(len(waiting)))


@given(LENGTHS, LENGTHS)
def test_likeness_is_mutual(one: int, other: int) -> None:
    assert alike(one, other) == alike(other, one) and alike(one, one)


@pytest.mark.parametrize(
    ("waiting", "chosen"),
    [
        (queue(16000, 250, 240, 260), [240, 250, 260]),
        (queue(16000), [16000]),
        (queue(20000, 20000), [20000]),
        (queue(200, 314, 315), [200, 314]),
        (queue(*[120] * 40), [120] * 32),
        (queue(*[500] * 40), [500] * 8),
        (queue(900, 990, 1000, 1023, 1024), [900, 990, 1000, 1023]),
        (queue(1024, 1023, 1023, 1024), [1023, 1023]),
        (queue(3000, 3000), [3000]),
    ],
)
def test_what_it_comes_to_under_the_default_limits(waiting: list[Waiting], chosen: list[int]) -> None:
    assert lengths_of(next_batch(waiting, Limits(tokens=4096, records=32)), waiting) == chosen


def test_packed_records_need_not_be_alike_while_a_card_reads_its_weights() -> None:
    waiting = queue(40, 190, 26, 300, 16000)
    assert lengths_of(next_batch(waiting, Limits(16384, 32)), waiting) == [26, 40]
    assert lengths_of(next_batch(waiting, Limits(16384, 32, packed=True)), waiting) == [26, 40, 190]
    longer = queue(700, 760, 800, 820, 900)
    assert len(next_batch(longer, Limits(4096, 32))) == 4
    assert len(next_batch(longer, Limits(4096, 32, packed=True))) == 5


def test_records_behind_a_state_are_padded_where_others_are_packed() -> None:
    waiting = [behind(64, 1), behind(300, 1)]
    assert next_batch(waiting, Limits(16384, 32, packed=True)) == [0]


def test_an_old_long_record_takes_its_like_along() -> None:
    waiting = queue(800, 200, 900, 210, 780, 16000)
    chosen = next_batch(waiting, Limits(tokens=16384, records=32), oldest_leads=True)
    assert lengths_of(chosen, waiting) == [780, 800, 900]


def test_records_with_images_go_apart() -> None:
    waiting = [Waiting(200), Waiting(201, True), Waiting(202), Waiting(203, True)]
    assert next_batch(waiting, Limits(16384, 32)) == [0, 2]
    assert next_batch(waiting[1:], Limits(16384, 32)) == [0, 2]


def behind(rest: int, state: int, length: int = 1000) -> Waiting:
    """A record of `rest` tokens behind one of several states of some length."""
    prefix = Prefix((b"%d" % state,), (length,))
    return Waiting(length + rest, prefix=prefix)


SHARED = st.builds(behind, st.integers(1, 400), st.integers(0, 2), st.just(1000))


@given(st.lists(SHARED | st.builds(Waiting, LENGTHS), min_size=1, max_size=40), LIMITS, st.sets(st.integers(0, 2)))
def test_records_go_with_those_of_their_state_alone(waiting: list[Waiting], limits: Limits, held: set[int]) -> None:
    known = {behind(1, state).prefix for state in held}
    chosen = [waiting[place] for place in next_batch(waiting, limits, holds=known.__contains__)]
    assert len({record.prefix for record in chosen}) == 1
    rests = [record.rest for record in chosen]
    packed = limits.packed and chosen[0].prefix is None
    shared = (chosen[0].length - chosen[0].rest) // SHARE
    tokens = sum(rests) if packed else (shared + max(rests)) * len(chosen)
    assert alike(min(rests), max(rests)) or (packed and tokens <= FREE_TOKENS)
    assert rests == sorted(rests)
    assert len(chosen) == 1 or tokens <= limits.tokens


def test_what_is_left_to_compute_decides_who_leads() -> None:
    waiting = [Waiting(500), behind(60, 1), behind(50, 2), Waiting(600)]
    limits, second = Limits(16384, 32), waiting[2].prefix
    assert next_batch(waiting, limits) == [0, 3]
    assert next_batch(waiting, limits, holds=lambda prefix: prefix == second) == [2]
    assert next_batch(waiting[1:3], limits) == [1]


def test_eight_questions_on_one_state_go_together() -> None:
    waiting = [behind(100 + place, 1, length=4000) for place in range(8)]
    assert next_batch(waiting, Limits(16384, 32)) == list(range(8))
