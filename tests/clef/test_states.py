"""Records behind a kept prefix score as they do when computed whole, however the prefix came to be there."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from clef import footprint
from clef.batch import Record
from clef.continuation import Continuation
from clef.model import ClefModel
from clef.prefix import Prefix, media_key
from clef.settings import ModelSettings
from clef.totals import Totals
from tests.clef.golden_records import IMAGE_CASES, SHORT_CASES, ints, record
from tests.golden_cases import CASES, RELEASE

SPACING = 64
SAME = 1e-5


@pytest.fixture(scope="module")
def cached() -> Iterator[ClefModel]:
    """A model that keeps every prefix, with boundaries so near to each other that any golden case has several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(footprint, "SHORTEST", SPACING)
        patch.setattr(footprint, "CHUNK", SPACING)
        loaded = ClefModel.load(ModelSettings(release=RELEASE, state_cache_min_tokens=1), "cpu")
        assert loaded.states.footprint.spacing == SPACING
        loaded.states.enabled = True
        yield loaded


@pytest.fixture(autouse=True)
def empty(cached: ClefModel) -> None:
    cached.states.cache.clear()
    cached.states.cache.max_bytes = 1 << 30


@cache
def whole(model: ClefModel, shown: Record) -> np.ndarray:
    return model.score([shown])[0]


def assert_same(model: ClefModel, records: Sequence[Record]) -> None:
    """Records of one prefix score behind it as each does whole and alone."""
    prefix = model.prefix(records[0])
    assert prefix is not None
    for shown, logits in zip(records, model.score(records, prefix), strict=True):
        model.check(shown)
        assert model.prefix(shown) == prefix
        np.testing.assert_allclose(logits, whole(model, shown), atol=SAME, rtol=0)


def behind(state: Record, asked: Record, until: int | None = None, more: Sequence[int] = ()) -> Record:
    """The questions of `asked` behind the prefix of `state`: its tokens up to `until`, and `more` of them."""
    prefix = np.concatenate([state.input_ids[: state.state_end][:until], ints(more, -1)])
    moved = len(prefix) - asked.state_end
    return replace(
        asked,
        input_ids=np.concatenate([prefix, asked.input_ids[asked.state_end :]]),
        question_spans=asked.question_spans + moved,
        option_spans=asked.option_spans + moved,
        state_end=len(prefix),
        patches=state.patches,
        image_grid=state.image_grid,
    )


def counted(model: ClefModel) -> tuple[int, int, int]:
    return model.totals.hits, model.totals.misses, model.totals.reused_tokens


def change(model: ClefModel, before: tuple[int, int, int]) -> tuple[int, ...]:
    return tuple(now - then for now, then in zip(counted(model), before, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_golden_case_missed_and_hit(cached: ClefModel, name: str) -> None:
    before = counted(cached)
    assert_same(cached, [record(name)])
    assert change(cached, before) == (0, 1, 0)
    assert_same(cached, [record(name)])
    assert change(cached, before) == (1, 1, record(name).state_end)


@pytest.mark.parametrize("name", ["three-types", *IMAGE_CASES])
def test_unlike_questions_on_one_state_in_a_batch(cached: ClefModel, name: str) -> None:
    asked = [record(each) for each in ("one-option", "three-types", "noul-only")]
    shared = [behind(record(name), each) for each in asked]
    before = counted(cached)
    assert_same(cached, shared)
    assert change(cached, before) == (2, 1, 2 * shared[0].state_end)
    assert_same(cached, shared[1:])
    assert change(cached, before) == (4, 1, 4 * shared[0].state_end)


@pytest.mark.parametrize("name", ["three-types", *IMAGE_CASES])
@pytest.mark.parametrize("more", [1, 2, SPACING, 70])
def test_a_state_that_grew_continues_from_its_longest_boundary(cached: ClefModel, name: str, more: int) -> None:
    asked, old = record("noul-only"), record(name)
    assert_same(cached, [behind(old, asked)])
    before = counted(cached)
    assert_same(cached, [behind(old, asked, more=range(5, 5 + more))])
    assert change(cached, before) == (0, 1, old.state_end // SPACING * SPACING)


@pytest.mark.parametrize("until", [1, 2, 3, 4, SPACING - 1, SPACING, SPACING + 1])
def test_prefixes_of_any_length(cached: ClefModel, until: int) -> None:
    for _ in range(2):
        assert_same(cached, [behind(record("three-types"), record("noul-only"), until)])


def test_a_state_that_differs_early_continues_from_nothing(cached: ClefModel) -> None:
    first = record("three-types")
    other = replace(first, input_ids=np.where(np.arange(first.length) == 3, first.input_ids + 1, first.input_ids))
    assert_same(cached, [first])
    before = counted(cached)
    assert_same(cached, [other])
    assert change(cached, before) == (0, 1, 0)


def test_the_same_tokens_under_another_image_are_another_prefix(cached: ClefModel) -> None:
    shown = record("image-native-grid")
    other = replace(shown, patches=255 - shown.patches)
    assert_same(cached, [shown])
    assert_same(cached, [other])
    assert np.abs(cached.score([shown], cached.prefix(shown))[0] - cached.score([other])[0]).max() > SAME


def test_under_pressure_what_was_evicted_is_computed_again(cached: ClefModel) -> None:
    records = [record(name) for name in SHORT_CASES]
    cached.states.cache.max_bytes = 2 * max(cached.states.footprint.prefix(each.state_end) for each in records)
    evicted, chance = cached.states.cache.evictions, random.Random(0)
    for _ in range(25):
        shown = chance.choice(records)
        assert_same(cached, [shown if chance.random() < 0.5 else behind(shown, record("noul-only"), more=[7, 8])])
        assert cached.states.cache.bytes <= cached.states.cache.max_bytes
    assert cached.states.cache.evictions > evicted


def test_the_arithmetic_is_what_a_prefix_takes(cached: ClefModel) -> None:
    for name in ("three-types", "image-native-grid"):
        cached.states.cache.clear()
        cached.score([record(name)], cached.prefix(record(name)))
        assert cached.states.cache.bytes == cached.states.footprint.prefix(record(name).state_end)


def test_what_may_not_be_continued_is_computed_whole(cached: ClefModel) -> None:
    shown = record("image-native-grid")
    middle = int(np.flatnonzero(shown.input_ids == cached._trunk.media_tokens.image)[5])
    assert cached.prefix(shown) is not None
    assert cached.prefix(replace(shown, state_end=middle)) is None  # an image on both sides
    assert cached.prefix(replace(shown, state_end=0)) is None
    assert cached.prefix(replace(shown, state_end=shown.length)) is None  # questions before the end of the state
    cached.states.cache.max_bytes = cached.states.footprint.prefix(shown.state_end) - 1
    assert cached.prefix(shown) is None


def test_short_states_are_computed_whole() -> None:
    shown = record("three-types")
    for least, kept in ((shown.state_end, True), (shown.state_end + 1, False)):
        model = ClefModel.load(ModelSettings(release=RELEASE, state_cache_min_tokens=least), "cpu")
        model.states.enabled = True
        assert (model.prefix(shown) is not None) is kept


def test_out_of_memory_gives_the_cache_up_and_tries_again(cached: ClefModel, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = record("three-types")
    prefix = cached.prefix(shown)
    assert prefix is not None
    wanted = cached.score([shown], prefix)[0]
    forward, failures = cached._trunk.extend, [torch.OutOfMemoryError("CUDA out of memory")]

    def fail(*given: object) -> object:
        if failures:
            raise failures.pop()
        return forward(*given)

    monkeypatch.setattr(cached._trunk, "extend", fail)
    np.testing.assert_allclose(cached.score([shown], prefix)[0], wanted, atol=SAME, rtol=0)
    failures += [torch.OutOfMemoryError("CUDA out of memory") for _ in range(3)]
    with pytest.raises(torch.OutOfMemoryError):
        cached.score([shown], prefix)
    assert len(failures) == 1, "tried twice, and no more"


def test_the_images_of_a_request_are_hashed_once(cached: ClefModel, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Record] = []

    def watched(shown: Record) -> bytes:
        hashed.append(shown)
        return media_key(shown)

    monkeypatch.setattr("clef.states.media_key", watched)
    first, other = record("image-native-grid"), record("two-images")
    shared = [replace(first, state_end=first.state_end - place) for place in range(8)]
    prefixes = [cached.prefix(shown) for shown in shared]
    assert len(hashed) == 1 and len(set(prefixes)) == 8
    assert cached.prefix(other) == Prefix.of(other, cached.states.footprint.spacing) and len(hashed) == 2


def test_the_warm_up_lets_the_cache_serve() -> None:
    model = ClefModel.load(ModelSettings(release=RELEASE, state_cache_min_tokens=1), "cpu")
    assert model.prefix(record("three-types")) is None
    model.warm_up()
    assert model.prefix(record("three-types")) is not None and model.states.cache.bytes == 0


@pytest.mark.parametrize("method", ["get_recurrent_state", "get_conv_state"])
def test_the_warm_up_keeps_a_cache_off_that_continues_wrongly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    monkeypatch.setattr(Continuation, method, lambda *_, **__: None)
    model = ClefModel.load(ModelSettings(release=RELEASE, state_cache_min_tokens=1), "cpu")
    model.warm_up()
    assert model.prefix(record("three-types")) is None
    assert "the state cache stays off" in caplog.text


def test_a_cache_without_bytes_is_off_and_not_checked() -> None:
    model = ClefModel.load(ModelSettings(release=RELEASE, state_cache_bytes=0, state_cache_min_tokens=1), "cpu")
    model.warm_up()
    assert model.prefix(record("three-types")) is None and model.totals.misses == 0


def test_padding_and_reuse_are_counted(cached: ClefModel, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = [behind(record("three-types"), record(each)) for each in ("one-option", "noul-only")]
    rests = [each.length - each.state_end for each in shared]
    monkeypatch.setattr(cached, "totals", Totals())
    monkeypatch.setattr(cached.states, "_totals", cached.totals)
    cached.score(shared, cached.prefix(shared[0]))
    assert cached.totals.tokens == shared[0].state_end + sum(rests)
    assert cached.totals.padding_tokens == 2 * max(rests) - sum(rests) > 0
    assert cached.totals.records == 2 and dict(cached.totals.micro_batches) == {2: 1}
