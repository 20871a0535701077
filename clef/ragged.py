"""Rows that belong to groups of unequal size: the index arrays are made once, by numpy, and nothing asks the device.

Axes: N rows in all, G groups, M rows of the largest group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Index = NDArray[np.int64]


def ranges(starts: NDArray[Any], counts: NDArray[Any]) -> Index:
    """The integers of [start, start + count) of each pair, one after another."""
    counts = counts.astype(np.int64)
    ends = np.cumsum(counts)
    shifts: Index = np.repeat(starts.astype(np.int64) - (ends - counts), counts)
    return np.arange(ends[-1], dtype=np.int64) + shifts


def offsets(counts: NDArray[Any]) -> Index:
    """Where each group begins among the rows, and where the last one ends: [G + 1]."""
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def places(lengths: NDArray[Any], packed: bool) -> Index:
    """The first token of each record among those of all, end to end or padded to the longest: [B]"""
    return offsets(lengths)[:-1] if packed else np.arange(len(lengths)) * lengths.max()


def upload(arrays: Sequence[NDArray[Any]], device: torch.device) -> tuple[Tensor, ...]:
    """The arrays as int64 tensors on the device, moved in one copy."""
    joined = torch.from_numpy(np.concatenate([array.astype(np.int64, copy=False).ravel() for array in arrays]))
    parts = torch.split(joined.to(device), [array.size for array in arrays])
    return tuple(part.view(array.shape) for part, array in zip(parts, arrays, strict=True))


@dataclass(frozen=True, eq=False, slots=True)
class Ragged:
    """N rows in G groups, and their places in a padded [G, M] grid."""

    groups: int
    most: int
    rows: int
    slots: Tensor | None
    """[N] place of each row in the flattened grid; None where every group is full, so that nothing need move."""

    @staticmethod
    def slots_of(counts: NDArray[Any]) -> Index:
        """[N] on the host; see `slots`."""
        return ranges(np.arange(len(counts)) * counts.max(), counts)

    @classmethod
    def of(cls, counts: NDArray[Any], slots: Tensor) -> Ragged:
        """From the groups' sizes and `slots_of` them on the device."""
        groups, most, rows = len(counts), int(counts.max()), int(counts.sum())
        return cls(groups, most, rows, None if rows == groups * most else slots)

    def pad(self, rows: Tensor, fill: float = 0.0) -> Tensor:
        """[N, …] → [G, M, …]"""
        if self.slots is None:
            return rows.reshape(self.groups, self.most, *rows.shape[1:])
        grid = rows.new_full((self.groups * self.most, *rows.shape[1:]), fill)
        return grid.index_copy_(0, self.slots, rows).view(self.groups, self.most, *rows.shape[1:])

    def unpad(self, grid: Tensor) -> Tensor:
        """[G, M, …] → [N, …]"""
        flat = grid.reshape(self.groups * self.most, *grid.shape[2:])
        return flat if self.slots is None else flat.index_select(0, self.slots)

    def bias(self, dtype: torch.dtype, device: torch.device) -> Tensor | None:
        """[G, M]: 0 on rows, -inf on padding; None where there is none."""
        if self.slots is None:
            return None
        grid = torch.full((self.groups * self.most,), -torch.inf, dtype=dtype, device=device)
        return grid.index_fill_(0, self.slots, 0.0).view(self.groups, self.most)
