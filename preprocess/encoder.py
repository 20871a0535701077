"""From a validated request to the token ids and spans of its records.

A record is PREFIX, media, state, and the tail that `schema_encoder` makes of the questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from preprocess import prompt
from preprocess.errors import RequestTooLarge
from preprocess.long_text import Reading, read
from preprocess.plan import PlannedQuestion, Truncated
from preprocess.schema import Request
from preprocess.schema_encoder import EncodedSchema, Ints, SchemaEncoder, TooManyTokens
from preprocess.settings import Overflow, Semantics
from preprocess.tokenizer import Tokenizer
from preprocess.video_processor import Clip

# A merge of 2 x 2 patches is one token of the prompt.
PATCHES_PER_TOKEN = 4
# The needed tokens are counted to the end for inputs up to this many times the limit, and said as "at least" beyond.
EXACT_UP_TO = 2
# What is cut off is counted, too: a state of more tokens is refused even where it may be cut (4 s of work). Told as
# the limit `max_tokens_cut`.
MOST_TOKENS_CUT = 2_000_000


@dataclass(frozen=True, slots=True)
class Encoded:
    """R records one after another, with Q questions and O options in all; spans count from their record's start.

    input_ids [T]; records [R, 3] (tokens, questions, and the first token behind the state); questions [Q, 4] (start,
    end, type, options); option_spans [O, 2] in head order.
    """

    input_ids: Ints
    records: Ints
    questions: Ints
    option_spans: Ints
    planned: tuple[PlannedQuestion, ...]
    truncated: Truncated | None

    @property
    def tokens(self) -> int:
        return len(self.input_ids)


class Encoder:
    """One tokenizer's encoder with its caches."""

    def __init__(self, tokenizer: Tokenizer, cache_entries: int) -> None:
        self._tokenizer = tokenizer
        self._schema = SchemaEncoder(tokenizer, cache_entries)
        self._prefix = np.array(tokenizer.prefix, dtype=np.int32)

    def encode(
        self,
        request: Request,
        media_grids: Ints,
        clips: Sequence[Clip] = (),
        *,
        max_length: int,
        semantics: Semantics,
        overflow: Overflow,
    ) -> Encoded:
        """The records of `request`; `media_grids` [n, 3] are the patch grids (time, height, width) of its images, and
        `clips` its videos.

        Raises RequestTooLarge where a record would have more than `max_length` tokens: always when its schema and
        its media alone do, otherwise under `overflow="reject"`; under "truncate" the state is cut from its end.
        """
        head = self._head(media_grids, clips)
        schema = self._encode_schema(request, semantics, len(head), max_length)
        rooms = [max_length - len(head) - len(tail.ids) for tail in schema.tails]
        if min(rooms) < 0:
            raise _too_large(str(max_length - min(rooms)), max_length, " without its state")
        reading = self._read_state(prompt.render(request.state), rooms, max_length, overflow)
        state = np.array(reading.ids, dtype=np.int32)
        kept = [min(len(state), room) for room in rooms]
        dropped = reading.tokens - min(kept)
        return _join(head, state, kept, schema, Truncated(min(kept), dropped) if dropped else None)

    def _encode_schema(self, request: Request, semantics: Semantics, before: int, max_length: int) -> EncodedSchema:
        try:
            return self._schema.encode(request.questions, semantics, EXACT_UP_TO * max_length)
        except TooManyTokens as error:
            raise _too_large(f"at least {before + error.tokens}", max_length, " without its state") from None

    def _read_state(self, text: str, rooms: list[int], max_length: int, overflow: Overflow) -> Reading:
        """As many ids as the widest record has room for. Raises RequestTooLarge where the narrowest must not be cut."""
        cut = overflow == "truncate"
        stop_at = MOST_TOKENS_CUT if cut else min(rooms) + (EXACT_UP_TO - 1) * max_length
        reading = read(self._tokenizer.encode, text, keep=max(rooms), stop_at=max(stop_at, max(rooms)))
        if cut and not reading.whole:
            message = f"The state has at least {reading.tokens} tokens; {MOST_TOKENS_CUT} are allowed where it is cut."
            raise RequestTooLarge(message)
        if not cut and reading.tokens > min(rooms):
            needed = max_length - min(rooms) + reading.tokens
            raise _too_large(str(needed) if reading.whole else f"at least {needed}", max_length)
        return reading

    def _head(self, media_grids: Ints, clips: Sequence[Clip]) -> Ints:
        if len(media_grids) == 0 and not clips:
            return self._prefix
        tokenizer = self._tokenizer
        ids: list[int] = []
        for patches in media_grids.prod(axis=1).tolist():
            ids += tokenizer.vision_start, *[tokenizer.image_pad] * (patches // PATCHES_PER_TOKEN), tokenizer.vision_end
        for clip in clips:
            ids += tokenizer.video(clip.timestamps, clip.group_patches // PATCHES_PER_TOKEN)
        return np.concatenate([self._prefix, np.array(ids + tokenizer.media_end, dtype=np.int32)])


def _join(
    head: Ints,
    state: Ints,
    kept: list[int],
    schema: EncodedSchema,
    truncated: Truncated | None,
) -> Encoded:
    tails = schema.tails
    ends = [len(head) + length for length in kept]
    pieces = [piece for length, tail in zip(kept, tails, strict=True) for piece in (head, state[:length], tail.ids)]
    placed = list(zip(tails, ends, strict=True))
    return Encoded(
        input_ids=np.concatenate(pieces),
        records=np.array([(end + len(tail.ids), len(tail.questions), end) for tail, end in placed], dtype=np.int32),
        questions=np.concatenate([tail.questions + np.array([end, end, 0, 0], np.int32) for tail, end in placed]),
        option_spans=np.concatenate([tail.option_spans + np.int32(end) for tail, end in placed]),
        planned=schema.questions,
        truncated=truncated,
    )


def _too_large(needed: str, allowed: int, part: str = "") -> RequestTooLarge:
    return RequestTooLarge(f"The request needs {needed} tokens{part}; {allowed} are allowed.")
