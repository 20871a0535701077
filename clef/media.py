"""Images and videos of a micro-batch: which patches are computed, where their features go, and the positions they bend.

Source: the rotary positions of transformers' Qwen3_5 (an image advances all three axes by its longer side in merged
patches), and its vision tower, to which two frames of a video are one picture: none of them sees the others. So a row
of a record's grid is an image, or two frames of a video; they differ in their token, and in the second frame. What
differs from transformers: several records that show the same media share one computation of them.

Axes: B records, L tokens, P patches of frames, V patches of pictures, n pictures, K media tokens of all records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from clef.batch import Record
from clef.errors import InvalidRecord
from clef.ragged import Index, offsets, places, ranges, upload

AXES = 3


class MediaTokens(NamedTuple):
    """The ids that stand where features go."""

    image: int
    video: int

    def shown_in(self, record: Record, start: int, end: int) -> bool:
        """Whether any of the record's media stand in these tokens. Without media the ids are text."""
        return record.has_media and bool(np.isin(record.input_ids[start:end], self).any())


@dataclass(frozen=True, eq=False, slots=True)
class Media:
    """The media of one micro-batch."""

    patches: Tensor  # [P, 768] uint8, each distinct set of media once
    pairs: Tensor  # [V, 2] the patches that are one picture's in time
    grid: Tensor  # [n, 3] time 1, height, width in patches
    slots: Tensor  # [K] media tokens in the flattened ids
    features: Tensor  # [K] the feature that belongs there
    positions: Tensor  # [3, B, L], or packed [3, 1, T]

    @classmethod
    def of(
        cls, records: Sequence[Record], tokens: MediaTokens, merge: int, device: torch.device, packed: bool = False
    ) -> Media | None:
        """None where no record has media. `merge`: patches a side that one token stands for."""
        if not any(record.has_media for record in records):
            return None
        lengths = np.array([record.length for record in records])
        rows = 1 if packed else len(records)
        positions = np.zeros((AXES, lengths.sum() if packed else rows * lengths.max()), np.int64)
        first_feature: dict[int, int] = {}
        shown: list[Record] = []
        slots, features, computed = [], [], 0
        for start, record in zip(places(lengths, packed), records, strict=True):
            positions[:, start : start + record.length] = rope_positions(record, tokens, merge)
            if not record.has_media:
                continue
            sizes = _tokens_each(record, merge)
            if id(record.patches) not in first_feature:
                first_feature[id(record.patches)] = computed
                shown.append(record)
                computed += sizes.sum()
            slots.append(start + ranges(media_starts(record, tokens, merge), sizes))
            features.append(first_feature[id(record.patches)] + np.arange(sizes.sum()))
        grid = np.concatenate([record.image_grid for record in shown])
        indices = upload(
            [
                _pairs(grid),
                np.where([True, False, False], 1, grid),
                np.concatenate(slots),
                np.concatenate(features),
                positions.reshape(AXES, rows, -1),
            ],
            device,
        )
        patches = torch.from_numpy(np.concatenate([record.patches for record in shown])).to(device)
        return cls(patches, *indices)


def pixel_values(patches: Tensor, pairs: Tensor) -> Tensor:
    """uint8 [P, 768] → float32 [V, 1536] in [-1, 1]: (channel, time 2, 16, 16)."""
    frames = patches[pairs].view(len(pairs), 2, 3, 16 * 16).transpose(1, 2)
    return (frames.to(torch.float32) / 127.5 - 1).reshape(len(pairs), -1)


def rope_positions(record: Record, tokens: MediaTokens, merge: int) -> Index:
    """Rotary positions (time, height, width) of each token: [3, L]."""
    positions = np.empty((AXES, record.length), np.int64)
    done = place = 0
    for first, (_, height, width) in zip(
        media_starts(record, tokens, merge), record.image_grid // (1, merge, merge), strict=True
    ):
        positions[:, done:first] = place + np.arange(first - done)
        place += first - done
        done = first + height * width
        positions[:, first:done] = place + np.indices((1, height, width)).reshape(AXES, -1)
        place += max(height, width)
    positions[:, done:] = place + np.arange(record.length - done)
    return positions


def media_starts(record: Record, tokens: MediaTokens, merge: int) -> Index:
    """Where the tokens of each image, and of each two frames, begin: [n].

    Raises InvalidRecord where the tokens are not the media's own, or stand in another order.
    """
    starts = np.empty(len(record.image_grid), np.int64)
    if not len(starts):
        return starts
    sizes = _tokens_each(record, merge)
    for token, frames in ((tokens.image, 1), (tokens.video, 2)):
        own = record.image_grid[:, 0] == frames
        # Without media of its kind a token is text: the publisher's encoding lets a state spell it.
        if own.any():
            starts[own] = _starts(np.flatnonzero(record.input_ids == token), sizes[own])
    if (starts[1:] < starts[:-1] + sizes[:-1]).any():
        raise InvalidRecord("the tokens of the media do not stand in the order of the grid")
    return starts


def _starts(places: Index, sizes: Index) -> Index:
    if len(places) != sizes.sum():
        raise InvalidRecord(f"the record holds {len(places)} media tokens, its media need {sizes.sum()}")
    ends = np.cumsum(sizes)
    starts: Index = places[ends - sizes]
    if (places[ends - 1] != starts + sizes - 1).any():
        raise InvalidRecord("the tokens of an image do not stand together")
    return starts


def _tokens_each(record: Record, merge: int) -> Index:
    """[n]"""
    sizes: Index = record.image_grid[:, 1:].astype(np.int64).prod(axis=1) // merge**2
    return sizes


def _pairs(grid: Index) -> Index:
    """Which two patches of frames each patch of a picture is made of: an image's stand for both. [V, 2]"""
    sizes = grid[:, 1] * grid[:, 2]
    first = ranges(offsets(sizes * grid[:, 0])[:-1], sizes)
    return np.stack([first, first + np.repeat(sizes * (grid[:, 0] - 1), sizes)], axis=1)
