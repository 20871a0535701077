"""A request's logits and its plan to the SystemOne answer, as the release gives it.

Follows the SystemOne contract as the Clef releases answer it (`Cloudflare/clef-flash` at `17f0b0ad`), except that
`confidence` may be TypeSafe's formula and that a number other than four digits may be kept. O stands for the options
of every question together, in head order: the order of the logits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from postprocess import confidence
from preprocess.errors import InvalidRequest
from preprocess.plan import Plan, PlannedQuestion

Logits = npt.NDArray[np.float32]


def answer(plan: Plan, logits: Logits) -> tuple[bytes, npt.NDArray[np.float32]]:
    """The SystemOne response body, and the probabilities [O] in the logits' order.

    Raises InvalidRequest where the logits are not one per option, and ValueError where one is not finite: a broken
    model must not answer.
    """
    counts = [len(question.options) for question in plan.questions]
    probabilities = softmax(logits, counts)
    # Floats of Python: a question has a few, and every numpy call on a few costs a microsecond or more.
    values, end = probabilities.tolist(), 0
    answers = {}
    for question, count in zip(plan.questions, counts, strict=True):
        answers[question.id] = _answer(question, values[end : end + count], plan)
        end += count
    body: dict[str, Any] = {
        "model": plan.model,
        "answers": answers,
        "usage": {"input_tokens": plan.tokens, "output_tokens": 0},
    }
    if plan.truncated is not None:
        body["x_state_truncated"] = asdict(plan.truncated)
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(), probabilities.astype(np.float32)


def softmax(logits: Logits, counts: Sequence[int]) -> npt.NDArray[np.float64]:
    """Softmax within each run of `counts` options, in double precision: 255 rounded terms still sum to 1."""
    options = sum(counts)
    if logits.shape != (options,):
        raise InvalidRequest(f"LOGITS has {logits.size} logits; the PLAN's questions have {options} options.")
    if not np.isfinite(logits).all():
        raise ValueError("a logit is not finite")
    starts = [end - count for end, count in zip(accumulate(counts), counts, strict=True)]
    peaks = np.maximum.reduceat(logits, starts)
    probabilities: npt.NDArray[np.float64] = np.exp(logits.astype(np.float64) - np.repeat(peaks, counts))
    probabilities /= np.repeat(np.add.reduceat(probabilities, starts), counts)
    return probabilities


def _answer(question: PlannedQuestion, probabilities: Sequence[float], plan: Plan) -> dict[str, Any]:
    digits = plan.digits
    if question.type == "noul":
        return {"type": "noul", "noul": round(probabilities[question.options.index("true")], digits)}
    # Request order: what the client reads, and what «the first most probable» is counted in.
    options = [question.options[index] for index in question.order]
    values = [probabilities[index] for index in question.order]
    named = {option: round(value, digits) for option, value in zip(options, values, strict=True)}
    typesafe = plan.confidence == "typesafe"
    if question.type == "choice":
        certainty = confidence.typesafe_choice(values) if typesafe else confidence.top(values)
        return {
            "type": "choice",
            "choice": options[values.index(max(values))],
            "confidence": round(certainty, digits),
            "probabilities": named,
        }
    certainty = confidence.typesafe_score(values) if typesafe else confidence.top(values)
    return {
        "type": "score",
        "score": round(sum(level * value for level, value in enumerate(values)), digits),
        "confidence": round(certainty, digits),
        "legend": dict(zip(options, question.legend or (), strict=True)),
        "probabilities": named,
    }
