"""What holds for every encoded request, whatever it was."""

from __future__ import annotations

from typing import Any

import numpy as np

from preprocess.encoder import Encoded


def per_record(encoded: Encoded) -> list[dict[str, Any]]:
    """The encoded request cut into its records, with everything checked that the model step relies on."""
    assert all(array.dtype == np.int32 for array in (getattr(encoded, name) for name in ARRAYS))
    assert encoded.records[:, 0].sum() == len(encoded.input_ids) == encoded.tokens
    assert encoded.records[:, 1].sum() == len(encoded.questions) == len(encoded.planned)
    assert encoded.questions[:, 3].sum() == len(encoded.option_spans)
    assert [len(question.options) for question in encoded.planned] == encoded.questions[:, 3].tolist()
    records, token, question, option = [], 0, 0, 0
    for length, questions, state_end in encoded.records.tolist():
        asked = encoded.questions[question : question + questions]
        counts = asked[:, 3].tolist()
        record = {
            "input_ids": encoded.input_ids[token : token + length].tolist(),
            "state_end": state_end,
            "question_spans": asked[:, :2].tolist(),
            "question_types": asked[:, 2].tolist(),
            "option_counts": counts,
            "option_spans": encoded.option_spans[option : option + sum(counts)].tolist(),
        }
        check_spans(record)
        records.append(record)
        token, question, option = token + length, question + questions, option + sum(counts)
    return records


ARRAYS = ("input_ids", "records", "questions", "option_spans")


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
