"""Where the head finds each question and option of a micro-batch: all index arrays, built once by numpy.

Axes: B records, T tokens of all records (no padding), Q questions and O options of all records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clef.batch import Record
from clef.ragged import Ragged, offsets, places, ranges, upload


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """Index tensors of one micro-batch. «Bags» are runs of row numbers and the offsets where each run begins."""

    packed: bool  # whether the tokens come end to end
    tokens: Ragged  # T in B
    questions: Ragged  # Q in B
    options: Ragged  # O in B
    choices: Ragged  # O in Q
    spans: tuple[Tensor, Tensor]  # bags over all tokens: Q question spans, O option spans, B last tokens
    lexical: tuple[Tensor, Tensor]  # bags over the vocabulary: the token ids of O option spans
    option_offsets: Tensor  # [Q + 1] into the O options
    option_question: Tensor  # [O]
    question_record: Tensor  # [Q]
    question_types: Tensor  # [Q]

    @classmethod
    def of(cls, records: Sequence[Record], device: torch.device, packed: bool = False) -> Layout:
        lengths = np.array([record.length for record in records])
        questions = np.array([len(record.question_spans) for record in records])
        options = np.array([record.options for record in records])
        choices = np.concatenate([record.option_counts for record in records])
        token_ids = np.concatenate([record.input_ids for record in records])

        starts = places(lengths, packed)
        question_spans = np.concatenate([record.question_spans for record in records])
        option_spans = np.concatenate([record.option_spans for record in records])
        question_starts = question_spans[:, 0] + np.repeat(starts, questions)
        question_lengths = question_spans[:, 1] - question_spans[:, 0]
        option_starts = option_spans[:, 0] + np.repeat(starts, options)
        option_lengths = option_spans[:, 1] - option_spans[:, 0]
        span_starts = np.concatenate([question_starts, option_starts, starts + lengths - 1])
        span_lengths = np.concatenate([question_lengths, option_lengths, np.ones_like(lengths)])

        groupings = (lengths, questions, options, choices)
        indices = upload(
            [
                *(Ragged.slots_of(counts) for counts in groupings),
                ranges(span_starts, span_lengths),
                offsets(span_lengths),
                token_ids[ranges(option_spans[:, 0] + np.repeat(offsets(lengths)[:-1], options), option_lengths)],
                offsets(option_lengths),
                offsets(choices),
                np.repeat(np.arange(len(choices)), choices),
                np.repeat(np.arange(len(records)), questions),
                np.concatenate([record.question_types for record in records]),
            ],
            device,
        )
        return cls(
            packed=packed,
            tokens=Ragged.of(lengths, indices[0]),
            questions=Ragged.of(questions, indices[1]),
            options=Ragged.of(options, indices[2]),
            choices=Ragged.of(choices, indices[3]),
            spans=(indices[4], indices[5]),
            lexical=(indices[6], indices[7]),
            option_offsets=indices[8],
            option_question=indices[9],
            question_record=indices[10],
            question_types=indices[11],
        )
