"""What an answer needs to know of its request, so that the request is parsed once.

The preprocess step writes it, the model step does not see it, the postprocess step reads it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

QuestionType = Literal["noul", "choice", "score"]
Confidence = Literal["top", "typesafe"]


@dataclass(frozen=True, slots=True)
class PlannedQuestion:
    """One question. `options` are ids in head order, the order of the logits.

    `order[i]` is the head index of the option that the request named i-th. `legend` holds a score's level
    descriptions as they came (its head order is its request order); it is None for the other types.
    """

    id: str
    type: QuestionType
    options: tuple[str, ...]
    order: tuple[int, ...]
    legend: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class Truncated:
    """State tokens kept and dropped; with several records, those of the record that lost the most."""

    kept: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Plan:
    """`model` as the client named it, `questions` in request order, `tokens` of all records together."""

    model: str
    questions: tuple[PlannedQuestion, ...]
    tokens: int
    truncated: Truncated | None
    confidence: Confidence
    digits: int

    def to_json(self) -> str:
        return _DUMPS({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        value = json.loads(text)
        truncated = value["truncated"]
        return cls(
            model=value["model"],
            questions=tuple(_question(item) for item in value["questions"]),
            tokens=value["tokens"],
            truncated=None if truncated is None else Truncated(**truncated),
            confidence=value["confidence"],
            digits=value["digits"],
        )


def _fields(value: PlannedQuestion | Truncated) -> dict[str, Any]:
    # One level is enough, where dataclasses.asdict would copy every legend: half a millisecond for three questions.
    return {name: getattr(value, name) for name in value.__slots__}


_DUMPS = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_fields).encode


def _question(value: dict[str, Any]) -> PlannedQuestion:
    legend = value["legend"]
    return PlannedQuestion(
        id=value["id"],
        type=value["type"],
        options=tuple(value["options"]),
        order=tuple(value["order"]),
        legend=None if legend is None else tuple(legend),
    )
