"""Images of a micro-batch: which patches are computed, where their features go, and the positions they bend.

Source: the rotary positions of transformers' Qwen3_5 (an image advances all three axes by its longer side in merged
patches). What differs: several records that show the same images share one computation of them.

Axes: B records, L tokens, P patches, n images, K image tokens of all records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clef.batch import Record
from clef.errors import InvalidRecord
from clef.ragged import Index, upload

AXES = 3


@dataclass(frozen=True, eq=False, slots=True)
class Media:
    """The images of one micro-batch."""

    patches: Tensor  # [P, 768] uint8, each distinct set of images once
    grid: Tensor  # [n, 3] in patches
    slots: Tensor  # [K] image tokens in the flattened [B, L] grid
    features: Tensor  # [K] the image feature that belongs there
    positions: Tensor  # [3, B, L]

    @classmethod
    def of(
        cls, records: Sequence[Record], length: int, image_token: int, merge: int, device: torch.device
    ) -> Media | None:
        """None where no record has an image. `merge`: patches a side that one token stands for."""
        if not any(record.has_media for record in records):
            return None
        positions = np.zeros((AXES, len(records), length), np.int64)
        first_feature: dict[int, int] = {}
        shown: list[Record] = []
        slots, features, computed = [], [], 0
        for row, record in enumerate(records):
            positions[:, row, : record.length] = rope_positions(record, image_token, merge)
            if not record.has_media:
                continue
            count = len(record.patches) // merge**2
            if id(record.patches) not in first_feature:
                first_feature[id(record.patches)] = computed
                shown.append(record)
                computed += count
            slots.append(row * length + np.flatnonzero(record.input_ids == image_token))
            features.append(first_feature[id(record.patches)] + np.arange(count))
        indices = upload(
            [
                np.concatenate([record.image_grid for record in shown]),
                np.concatenate(slots),
                np.concatenate(features),
                positions,
            ],
            device,
        )
        patches = torch.from_numpy(np.concatenate([record.patches for record in shown])).to(device)
        return cls(patches, *indices)


def pixel_values(patches: Tensor) -> Tensor:
    """uint8 [P, 768] → float32 [P, 1536] in [-1, 1]: (channel, time 2, 16, 16), the frame repeated for the pair."""
    frames = (patches.to(torch.float32) / 127.5 - 1).view(len(patches), 3, 1, 16 * 16)
    return frames.expand(-1, -1, 2, -1).reshape(len(patches), -1)


def rope_positions(record: Record, image_token: int, merge: int) -> Index:
    """Rotary positions (time, height, width) of each token: [3, L]."""
    positions = np.empty((AXES, record.length), np.int64)
    done = place = 0
    for first, (_, height, width) in zip(
        image_starts(record, image_token, merge), record.image_grid // (1, merge, merge), strict=True
    ):
        positions[:, done:first] = place + np.arange(first - done)
        place += first - done
        done = first + height * width
        positions[:, first:done] = place + np.indices((1, height, width)).reshape(AXES, -1)
        place += max(height, width)
    positions[:, done:] = place + np.arange(record.length - done)
    return positions


def image_starts(record: Record, image_token: int, merge: int) -> NDArray[np.int64]:
    """Where each image's tokens begin: [n]. Raises InvalidRecord where the tokens are not the images' own."""
    if not record.has_media:
        # Without images the token is text: the publisher's encoding lets a state spell it.
        return np.empty(0, np.int64)
    sizes = record.image_grid.prod(axis=1) // merge**2
    places = np.flatnonzero(record.input_ids == image_token)
    if len(places) != sizes.sum():
        raise InvalidRecord(f"the record holds {len(places)} image tokens, its images need {sizes.sum()}")
    starts: NDArray[np.int64] = places[np.cumsum(sizes) - sizes]
    if (places[np.cumsum(sizes) - 1] != starts + sizes - 1).any():
        raise InvalidRecord("the tokens of an image do not stand together")
    return starts
