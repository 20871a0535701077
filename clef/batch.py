"""Records: what one row of the model's batch is made of, and how a request's tensors are cut into them.

Axes: L tokens, Q questions, O options, P patches, n images.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clef.errors import InvalidRecord

Ints = NDArray[np.int32]

RECORD_TENSORS = ("INPUT_IDS", "RECORDS", "QUESTIONS", "OPTION_SPANS", "PATCHES", "IMAGE_GRID")
"""Names of the tensors of a request that `split_records` reads, in the order of `clef_model`'s configuration."""

QUESTION_TYPES = 3
TYPE, OPTIONS = 2, 3
"""Columns of QUESTIONS, behind the two of the span."""
PATCH_BYTES = 3 * 16 * 16
FRAMES = 2
"""Frames at most that are one picture to the trunk."""


@dataclass(frozen=True, eq=False, slots=True)
class Record:
    """One sequence with its questions. Spans are half-open and count from the record's first token."""

    input_ids: Ints  # [L]
    question_spans: Ints  # [Q, 2]
    question_types: Ints  # [Q] noul 0, choice 1, score 2
    option_counts: Ints  # [Q]
    option_spans: Ints  # [O, 2] in head order
    state_end: int  # first token of the schema
    patches: NDArray[np.uint8]  # [P, 768] frame after frame, by 2x2 merge blocks; (channel, 16, 16) within a patch
    image_grid: Ints  # [n, 3] frames, height, width in patches; an image has one frame, each pair of a video's two

    @property
    def length(self) -> int:
        return len(self.input_ids)

    @property
    def options(self) -> int:
        return len(self.option_spans)

    @property
    def has_media(self) -> bool:
        return len(self.image_grid) > 0

    def check(self) -> None:
        """Raises InvalidRecord where counts, ranges or shapes contradict each other."""
        length, questions = self.length, len(self.question_spans)
        _demand(self.input_ids.ndim == 1 and length > 0, "a record needs tokens")
        _demand(self.question_spans.ndim == 2 and self.question_spans.shape[1] == 2, "question spans must be [Q, 2]")
        _demand(self.option_spans.ndim == 2 and self.option_spans.shape[1] == 2, "option spans must be [O, 2]")
        _demand(questions > 0, "a record needs a question")
        _demand(
            self.question_types.shape == self.option_counts.shape == (questions,),
            "question types and option counts must be one a question",
        )
        # Lists, as in `split_records`.
        types, counts = self.question_types.tolist(), self.option_counts.tolist()
        _demand(min(types) >= 0 and max(types) < QUESTION_TYPES, "unknown question type")
        _demand(min(counts) > 0, "a question needs an option")
        _demand(sum(counts) == self.options, "option counts do not add up to the option spans")
        spans = self.question_spans.tolist() + self.option_spans.tolist()
        _demand(all(0 <= start < end <= length for start, end in spans), "a span is empty or leaves its record")
        _demand(0 <= self.state_end <= length, "the state's end leaves its record")
        _demand(self.patches.ndim == 2 and self.patches.shape[1] == PATCH_BYTES, "patches must be [P, 768]")
        _demand(self.patches.dtype == np.uint8, "patches must be uint8")
        grid = self.image_grid
        _demand(grid.ndim == 2 and grid.shape[1] == 3, "the image grid must be [n, 3]")
        filled = 0
        for frames, height, width in grid.tolist():
            _demand(min(frames, height, width) > 0, "an image grid must be positive")
            _demand(frames <= FRAMES, "a row of the image grid has one frame or two")
            _demand(height % 2 == width % 2 == 0, "an image's sides must be whole merge blocks")
            filled += frames * height * width
        _demand(filled == len(self.patches), "patches do not fill the image grid")


def split_records(tensors: Mapping[str, NDArray[Any]]) -> list[Record]:
    """The records of one request, from its tensors (`RECORD_TENSORS`) without the batch axis.

    Every record shows all media of the request and shares their arrays: IMAGE_GRID has a row (frames, height, width)
    for each image and each video, a record's grid one for each picture. Raises InvalidRecord where the counts do not
    add up; what a record holds is checked by `Record.check`.
    """
    ids, questions, spans = tensors["INPUT_IDS"], tensors["QUESTIONS"], tensors["OPTION_SPANS"]
    # Lists: these are a few numbers, and every numpy call on a few numbers costs a microsecond or more.
    rows, option_counts = tensors["RECORDS"].tolist(), questions[:, OPTIONS].tolist()
    _demand(len(rows) > 0, "a request needs a record")
    _demand(min(min(row[:2]) for row in rows) > 0, "a record needs tokens and a question")
    _demand(min(option_counts, default=1) > 0, "a question needs an option")
    _demand(sum(row[0] for row in rows) == len(ids), "the records' tokens do not add up to the tokens")
    _demand(sum(row[1] for row in rows) == len(questions), "the records' questions do not add up to the questions")
    _demand(sum(option_counts) == len(spans), "the questions' options do not add up to the option spans")
    grid = _pictures(tensors["IMAGE_GRID"], len(tensors["PATCHES"]))
    records = []
    token = question = option = 0
    for length, asked, state_end in rows:
        own = questions[question : question + asked]
        options = sum(option_counts[question : question + asked])
        records.append(
            Record(
                input_ids=ids[token : token + length],
                question_spans=own[:, :TYPE],
                question_types=own[:, TYPE],
                option_counts=own[:, OPTIONS],
                option_spans=spans[option : option + options],
                state_end=state_end,
                patches=tensors["PATCHES"],
                image_grid=grid,
            )
        )
        token, question, option = token + length, question + asked, option + options
    return records


def _pictures(media: Ints, patches: int) -> Ints:
    """A row for each picture: an image, or two frames of a video. [n, 3]"""
    if not len(media):
        return media
    _demand(media.ndim == 2 and media.shape[1] == 3, "the image grid must be [n, 3]")
    frames = media[:, :1]
    # Each frame fills a patch: those of all rows together cannot be many.
    filled = bool((media > 0).all()) and int(frames.sum(dtype=np.int64)) <= patches
    _demand(filled, "patches do not fill the image grid")
    _demand(bool(((frames == 1) | (frames % FRAMES == 0)).all()), "a video has an even number of frames")
    pictures = np.concatenate([np.minimum(frames, FRAMES), media[:, 1:]], axis=1)
    return np.repeat(pictures, np.maximum(frames[:, 0] // FRAMES, 1), axis=0)


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InvalidRecord(otherwise)
