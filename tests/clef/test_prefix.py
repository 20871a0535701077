from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clef.batch import PATCH_BYTES
from clef.prefix import Prefix
from tests.clef.golden_records import ints, record
from tests.clef.made_records import made

IDS = st.lists(st.integers(0, 3), min_size=1, max_size=40)


def of(ids: list[int], spacing: int = 8) -> Prefix:
    return Prefix.of(replace(made(len(ids), [1]), input_ids=ints(ids, -1), state_end=len(ids)), spacing)


@given(IDS, IDS)
def test_boundaries_are_shared_exactly_as_far_as_the_tokens_are(one: list[int], other: list[int]) -> None:
    first, second = of(one), of(other)
    shared = {key: end for key, end in zip(first.keys, first.ends, strict=True) if key in second.keys}
    alike = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    ends = {end for end in first.ends if end <= alike and end in second.ends}
    assert set(shared.values()) == ends
    assert (first == second) == (one == other)


@given(st.integers(1, 60), st.integers(1, 60))
def test_boundaries_are_multiples_and_the_end(length: int, spacing: int) -> None:
    ends = of([1] * length, spacing).ends
    assert ends[-1] == length and list(ends) == sorted(set(ends))
    assert all(end % spacing == 0 for end in ends[:-1]) and len(ends) == -(-length // spacing)


def test_what_stands_behind_does_not_count() -> None:
    shown = record("three-types")
    other = replace(shown, input_ids=np.where(np.arange(shown.length) < shown.state_end, shown.input_ids, 7))
    assert Prefix.of(shown, 64) == Prefix.of(other, 64)
    assert Prefix.of(shown, 64) != Prefix.of(replace(shown, state_end=shown.state_end - 1), 64)


def test_text_that_spells_an_images_bytes_is_not_the_image() -> None:
    black, ids = np.zeros((4, PATCH_BYTES), np.uint8), ints([5, 6, 7], -1)
    grid = ints([1, 2, 2], 1, 3)
    image = replace(made(3, [1]), input_ids=ids, state_end=3, patches=black, image_grid=grid)
    spelt = np.concatenate([grid.ravel(), np.frombuffer(black.tobytes(), np.int32), ids])
    text = replace(made(len(spelt), [1]), input_ids=spelt, state_end=len(spelt))
    assert Prefix.of(image, 4096).key != Prefix.of(text, 4096).key
