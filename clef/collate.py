"""Records side by side, or end to end: what one forward pass takes.

Axes: B records, L tokens of the longest, T tokens of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clef.batch import Record
from clef.layout import Layout

# Nothing reads what padding computes: attention and DeltaNet look back only, and padding stands on the right.
PADDING = 0


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """One micro-batch on the device."""

    records: Sequence[Record]
    input_ids: Tensor  # [B, L] right-padded, or [1, T] packed
    packed: bool
    layout: Layout


def collate(records: Sequence[Record], device: torch.device, packed: bool = False) -> Batch:
    """Pad the records on the right, or put them into one row, and index their questions and options."""
    if packed:
        input_ids = np.concatenate([record.input_ids for record in records], dtype=np.int64)[None]
    else:
        input_ids = np.full((len(records), max(record.length for record in records)), PADDING, np.int64)
        for row, record in enumerate(records):
            input_ids[row, : record.length] = record.input_ids
    return Batch(records, torch.from_numpy(input_ids).to(device), packed, Layout.of(records, device, packed))
