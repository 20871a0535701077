"""What holds for every SystemOne answer, whatever the model: checked on each answer that a test sees."""

from __future__ import annotations

import math
from typing import Any

# Half a unit of the fourth decimal, per rounded term.
ROUNDING = 0.5e-4


def options_of(question: dict[str, Any]) -> list[str]:
    """The option ids of a question in request order."""
    if question["type"] == "noul":
        return ["true", "false"]
    criteria = question["criteria"]
    return list(criteria) if question["type"] == "choice" else [str(level) for level in range(len(criteria))]


def assert_answer(request: dict[str, Any], response: dict[str, Any]) -> None:
    """Keys and their order, ranges, sums, the first most probable choice, the expectation, legend and usage."""
    assert list(response)[:3] == ["model", "answers", "usage"]
    assert all(key.startswith("x_") for key in list(response)[3:])
    assert list(response["answers"]) == list(request["questions"])
    usage = response["usage"]
    assert type(usage["input_tokens"]) is int and usage["input_tokens"] > 0 and usage["output_tokens"] == 0
    for name, question in request["questions"].items():
        answer = response["answers"][name]
        assert answer["type"] == question["type"]
        if question["type"] == "noul":
            assert list(answer) == ["type", "noul"]
            assert 0 <= answer["noul"] <= 1
            continue
        options = options_of(question)
        probabilities = answer["probabilities"]
        values = list(probabilities.values())
        assert list(probabilities) == options
        assert all(math.isfinite(value) and 0 <= value <= 1 for value in values)
        assert abs(sum(values) - 1) <= ROUNDING * len(values) + 1e-9
        assert 0 <= answer["confidence"] <= 1
        if question["type"] == "choice":
            assert list(answer) == ["type", "choice", "confidence", "probabilities"]
            assert probabilities[answer["choice"]] == max(values)
        else:
            assert list(answer) == ["type", "score", "confidence", "legend", "probabilities"]
            assert answer["legend"] == dict(zip(options, question["criteria"], strict=True))
            expectation = sum(level * value for level, value in enumerate(values))
            assert abs(answer["score"] - expectation) <= ROUNDING * (1 + sum(range(len(values)))) + 1e-9


def assert_close(actual: Any, expected: Any, tolerance: float = 1e-4) -> None:
    """Equal in every key, its order, and every value; numbers that are not integers within `tolerance`."""
    assert type(actual) is type(expected)
    if isinstance(expected, dict):
        assert list(actual) == list(expected)
        for key in expected:
            assert_close(actual[key], expected[key], tolerance)
    elif isinstance(expected, float):
        assert abs(actual - expected) <= tolerance + 1e-9
    else:
        assert actual == expected
