"""Made-up records that bring a model to speed: kernels are compiled and tuned by length and batch size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from clef.batch import PATCH_BYTES, Ints, Record

CPU_LENGTHS = (64, 512)
CPU_COUNTS = (1, 4)
SHORTEST = 64
IMAGE_SIDE = 16
QUESTION = (0, 4)
OPTIONS = ((4, 8), (8, 12))
MIX = 7919
RESTS = (48, 64)
NEIGHBOURS = (48, 70, 17)
"""Lengths of which none ends where a kernel's chunk does."""


def shapes(device_type: str, batch_tokens: int, batch_records: int, max_length: int) -> list[tuple[int, int]]:
    """(length, records) of each micro-batch to compute: a few on a CPU, the powers of two under the budget on CUDA.

    There also a record alone of each length up to the longest that is allowed: what does not fit then never would.
    """
    lengths: tuple[int, ...] = CPU_LENGTHS
    counts: tuple[int, ...] = CPU_COUNTS
    if device_type == "cuda":
        lengths = (*(SHORTEST << step for step in range(((max_length - 1) // SHORTEST).bit_length())), max_length)
        counts = tuple(1 << step for step in range(batch_records.bit_length()))
    fits = [(length, count) for length in lengths for count in counts if length * count <= batch_tokens]
    alone = [(length, 1) for length in lengths if length > batch_tokens and device_type == "cuda"]
    return [*fits, *alone] or [(SHORTEST, 1)]


def text(length: int) -> Record:
    """A record of one question and two options."""
    return _record(np.zeros(length, np.int32), np.empty((0, PATCH_BYTES), np.uint8), np.empty((0, 3), np.int32))


def image(image_token: int, merge: int) -> Record:
    """A record that shows one small image."""
    tokens = (IMAGE_SIDE // merge) ** 2
    ids = np.concatenate([np.zeros(SHORTEST, np.int32), np.full(tokens, image_token, np.int32), np.zeros(1, np.int32)])
    grid = np.array([[1, IMAGE_SIDE, IMAGE_SIDE]], np.int32)
    return _record(ids, np.zeros((IMAGE_SIDE**2, PATCH_BYTES), np.uint8), grid)


def batches(
    device_type: str, batch_tokens: int, batch_records: int, max_length: int, image_token: int, merge: int
) -> Iterator[list[Record]]:
    """The micro-batches of a warm-up."""
    for length, count in shapes(device_type, batch_tokens, batch_records, max_length):
        yield [text(length)] * count
    yield [image(image_token, merge)]


def continued(spacing: int, image_token: int, merge: int) -> Iterator[list[Record]]:
    """Micro-batches of unlike records behind one prefix of two segments each: of text, and with an image first."""
    shown, nothing = image(image_token, merge), text(SHORTEST)
    for first in (nothing, shown):
        prefix = np.concatenate([first.input_ids, _mixed(spacing, image_token)])
        yield [_behind(prefix, _mixed(rest, image_token), first) for rest in RESTS]


def pairs(lengths: Iterable[int], image_token: int) -> Iterator[tuple[Record, Record]]:
    """Two unlike texts of each length."""
    for length in lengths:
        ids = _mixed(2 * length, image_token)
        yield replace(text(length), input_ids=ids[:length]), replace(text(length), input_ids=ids[length:])


def neighbours(image_token: int) -> tuple[list[Record], list[Record]]:
    """Records for a packed row, and each but the first as it must not be read there: behind the one before it."""
    ends = np.cumsum(NEIGHBOURS)
    ids = np.split(_mixed(int(ends[-1]), image_token), ends[:-1])
    records = [replace(text(len(each)), input_ids=each) for each in ids]
    return records, [_behind(first, second, records[0]) for first, second in pairwise(ids)]


def _mixed(length: int, below: int) -> Ints:
    """Ids that do not repeat soon."""
    return (np.arange(1, length + 1) * MIX % below).astype(np.int32)


def _behind(prefix: Ints, rest: Ints, shown: Record) -> Record:
    """A record whose question and options stand behind the prefix, with the images of `shown`."""
    record = _record(np.concatenate([prefix, rest]), shown.patches, shown.image_grid)
    return replace(
        record,
        question_spans=record.question_spans + len(prefix),
        option_spans=record.option_spans + len(prefix),
        state_end=len(prefix),
    )


def _record(ids: Ints, patches: NDArray[np.uint8], grid: Ints) -> Record:
    return Record(
        input_ids=ids,
        question_spans=np.array([QUESTION], np.int32),
        question_types=np.zeros(1, np.int32),
        option_counts=np.array([len(OPTIONS)], np.int32),
        option_spans=np.array(OPTIONS, np.int32),
        state_end=0,
        patches=patches,
        image_grid=grid,
    )
