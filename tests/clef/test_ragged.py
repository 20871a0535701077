from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from clef.ragged import Ragged, offsets, ranges, upload

COUNTS = st.lists(st.integers(1, 6), min_size=1, max_size=6).map(np.array)
CPU = torch.device("cpu")


def ragged(counts: np.ndarray) -> Ragged:
    return Ragged.of(counts, torch.from_numpy(Ragged.slots_of(counts)))


@given(COUNTS)
def test_padding_keeps_each_groups_rows_at_its_left(counts: np.ndarray) -> None:
    rows = torch.arange(1.0, counts.sum() + 1).unsqueeze(1)
    grid = ragged(counts).pad(rows, fill=-7.0)
    assert grid.shape == (len(counts), counts.max(), 1)
    for group, (padded, start) in enumerate(zip(grid[..., 0], offsets(counts), strict=False)):
        assert padded[: counts[group]].tolist() == rows[start : start + counts[group], 0].tolist()
        assert padded[counts[group] :].tolist() == [-7.0] * (counts.max() - counts[group])
    assert torch.equal(ragged(counts).unpad(grid), rows)


@given(COUNTS)
def test_the_bias_hides_padding_and_nothing_else(counts: np.ndarray) -> None:
    bias = ragged(counts).bias(torch.float32, CPU)
    if bias is None:
        assert (counts == counts.max()).all()
    else:
        assert (bias == 0).sum(1).tolist() == counts.tolist()
        assert torch.isinf(bias).sum() == counts.max() * len(counts) - counts.sum()


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5)), min_size=1, max_size=8))
def test_ranges_are_those_of_python(pairs: list[tuple[int, int]]) -> None:
    starts, counts = np.array(pairs).T
    wanted = [number for start, count in pairs for number in range(start, start + count)]
    assert ranges(starts, counts).tolist() == wanted


def test_arrays_arrive_as_they_were() -> None:
    arrays = [np.arange(3, dtype=np.int32), np.arange(6).reshape(2, 3), np.arange(4)]
    for tensor, array in zip(upload(arrays, CPU), arrays, strict=True):
        assert tensor.dtype == torch.int64 and tensor.tolist() == array.tolist()
