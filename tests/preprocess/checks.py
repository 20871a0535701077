"""What holds for every encoded request, whatever it was."""

from __future__ import annotations

from typing import Any

import numpy as np

from preprocess.encoder import Encoded


def per_record(encoded: Encoded) -> list[dict[str, Any]]:
    """The encoded request cut into its records, with everything checked that the model step relies on."""
    assert all(array.dtype == np.int32 for array in (getattr(encoded, name) for name in ARRAYS))
    assert encoded.record_lengths.sum() == len(encoded.input_ids) == encoded.tokens
    assert len(encoded.question_spans) == len(encoded.question_types) == len(encoded.option_counts)
    assert encoded.question_counts.sum() == len(encoded.question_spans) == len(encoded.questions)
    assert encoded.option_counts.sum() == len(encoded.option_spans)
    assert [len(question.options) for question in encoded.questions] == encoded.option_counts.tolist()
    records, token, question, option = [], 0, 0, 0
    for length, questions, state_end in zip(
        encoded.record_lengths.tolist(), encoded.question_counts.tolist(), encoded.state_end.tolist(), strict=True
    ):
        counts = encoded.option_counts[question : question + questions].tolist()
        record = {
            "input_ids": encoded.input_ids[token : token + length].tolist(),
            "state_end": state_end,
            "question_spans": encoded.question_spans[question : question + questions].tolist(),
            "question_types": encoded.question_types[question : question + questions].tolist(),
            "option_counts": counts,
            "option_spans": encoded.option_spans[option : option + sum(counts)].tolist(),
        }
        check_spans(record)
        records.append(record)
        token, question, option = token + length, question + questions, option + sum(counts)
    return records


ARRAYS = (
    "input_ids",
    "record_lengths",
    "question_counts",
    "state_end",
    "question_spans",
    "question_types",
    "option_counts",
    "option_spans",
)


def check_spans(record: dict[str, Any]) -> None:
    """Question, its options, the next question: none empty, none overlapping, all between state and end."""
    assert set(record["question_types"]) <= {0, 1, 2}
    options = iter(record["option_spans"])
    last = record["state_end"]
    for (start, end), count in zip(record["question_spans"], record["option_counts"], strict=True):
        for first, after in [(start, end), *(next(options) for _ in range(count))]:
            assert last < first < after
            last = after
    assert last < len(record["input_ids"])
