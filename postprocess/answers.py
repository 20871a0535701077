"""A request's logits and its plan to the SystemOne answer, as the release gives it.

Follows the SystemOne contract as the Clef releases answer it (`Cloudflare/clef-flash` at `17f0b0ad`), except that
`confidence` may be TypeSafe's formula and that a number other than four digits may be kept. O stands for the options
of every question together, in head order: the order of the logits.
"""

from __future__ import annotations

import json
from dataclasses import asdict
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
    counts = np.array([len(question.options) for question in plan.questions])
    probabilities = softmax(logits, counts)
    parts = np.split(probabilities, np.cumsum(counts)[:-1])
    answers = {question.id: _answer(question, part, plan) for question, part in zip(plan.questions, parts, strict=True)}
    body: dict[str, Any] = {
        "model": plan.model,
        "answers": answers,
        "usage": {"input_tokens": plan.tokens, "output_tokens": 0},
    }
    if plan.truncated is not None:
        body["x_state_truncated"] = asdict(plan.truncated)
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(), probabilities.astype(np.float32)


def softmax(logits: Logits, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Softmax within each run of `counts` options, in double precision: 255 rounded terms still sum to 1."""
    if logits.shape != (counts.sum(),):
        raise InvalidRequest(f"LOGITS has {logits.size} logits; the PLAN's questions have {counts.sum()} options.")
    if not np.isfinite(logits).all():
        raise ValueError("a logit is not finite")
    starts = np.cumsum(counts) - counts
    peaks = np.maximum.reduceat(logits, starts)
    probabilities: npt.NDArray[np.float64] = np.exp(logits.astype(np.float64) - np.repeat(peaks, counts))
    probabilities /= np.repeat(np.add.reduceat(probabilities, starts), counts)
    return probabilities


def _answer(question: PlannedQuestion, probabilities: npt.NDArray[np.float64], plan: Plan) -> dict[str, Any]:
    digits = plan.digits
    if question.type == "noul":
        return {"type": "noul", "noul": round(float(probabilities[question.options.index("true")]), digits)}
    # Request order: what the client reads, and what «the first most probable» is counted in.
    options = [question.options[index] for index in question.order]
    values = probabilities[list(question.order)]
    named = {option: round(value, digits) for option, value in zip(options, values.tolist(), strict=True)}
    typesafe = plan.confidence == "typesafe"
    if question.type == "choice":
        certainty = confidence.typesafe_choice(values) if typesafe else confidence.top(values)
        return {
            "type": "choice",
            "choice": options[int(values.argmax())],
            "confidence": round(certainty, digits),
            "probabilities": named,
        }
    certainty = confidence.typesafe_score(values) if typesafe else confidence.top(values)
    return {
        "type": "score",
        "score": round(float(values @ np.arange(len(values))), digits),
        "confidence": round(certainty, digits),
        "legend": dict(zip(options, question.legend or (), strict=True)),
        "probabilities": named,
    }
