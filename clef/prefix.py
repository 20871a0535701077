"""What a record's tokens before its schema are known by, so that what was computed of them can be found again.

A prefix has boundaries: every multiple of `spacing` tokens in it, and its own end. A boundary's key is a hash of
everything before it, tokens and images, so that equal keys mean equal computations; a state that grew shares the
boundaries of what it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from clef.batch import Record
from clef.media import MediaTokens

KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Prefix:
    """The tokens and images of a record before its schema."""

    keys: tuple[bytes, ...]
    """Of each boundary, the shortest first; the last is the whole prefix's."""
    ends: tuple[int, ...] = field(compare=False)
    """Tokens before each boundary."""

    @classmethod
    def of(cls, record: Record, spacing: int, media: bytes | None = None) -> Prefix:
        """`media` is what `media_key` gives, where that is known: images are megabytes."""
        content = blake2b(media_key(record) if media is None else media, digest_size=KEY_BYTES)
        ends = (*range(spacing, record.state_end, spacing), record.state_end)
        keys = []
        for start, end in zip((0, *ends), ends, strict=False):
            content.update(record.input_ids[start:end].tobytes())
            keys.append(content.copy().digest())
        return cls(tuple(keys), ends)

    @property
    def key(self) -> bytes:
        return self.keys[-1]

    @property
    def length(self) -> int:
        return self.ends[-1]


def media_key(record: Record) -> bytes:
    """A hash of the record's images."""
    # How many rows the grid has says how much of what follows is grid, and the grid how much is patches.
    content = blake2b(len(record.image_grid).to_bytes(4), digest_size=KEY_BYTES)
    content.update(np.ascontiguousarray(record.image_grid).data)
    content.update(np.ascontiguousarray(record.patches).data)
    return content.digest()


def stands_apart(record: Record, media_tokens: MediaTokens) -> bool:
    """Whether all that the head reads of the record, but for its memory, comes behind its prefix."""
    spans_behind = min(record.question_spans[:, 0].min(), record.option_spans[:, 0].min()) >= record.state_end
    media_before = not media_tokens.shown_in(record, record.state_end, record.length)
    return bool(record.state_end > 0 and spans_behind and media_before)
