"""The words around a request: the fixed pieces of a Clef prompt, and what is written of each question.

As measured on the releases of Cloudflare/clef-flash (17f0b0ad) and Cloudflare/clef (2f3de3dd). A record is
PREFIX, media, state, SCHEMA_HEAD, its questions, SUFFIX; every piece is tokenized on its own.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from preprocess.plan import PlannedQuestion
from preprocess.schema import Choice, Noul, Question

PREFIX = (
    "<|im_start|>system\n"
    "Read the complete state and schema. Decide every field jointly. "
    "Each answer must be exactly one of that field's allowed options."
    "<|im_end|>\n<|im_start|>user\nSTATE:\n"
)
SUFFIX = "\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nJOINT SCHEMA DECISIONS:"
VISION_START, IMAGE_PAD, VISION_END = "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"
VIDEO_PAD = "<|video_pad|>"
MEDIA_END = "\n"

SCHEMA_HEAD = "\n\nSCHEMA FIELDS:\n"
OPTIONS_HEAD = "\nALLOWED OPTIONS:\n"
OPTION_END = "\n"
FIELD_END = "END FIELD\n"

# Under `independent` semantics every question bears this id in its prompt.
NEUTRAL_ID = "question"

QUESTION_TYPES = {"noul": 0, "choice": 1, "score": 2}

_NOUL_DEFAULTS = {
    "true": "The proposition is true or the answer is yes.",
    "false": "The proposition is false or the answer is no.",
}


class Option(NamedTuple):
    """An answer that a question allows. No description is None."""

    id: str
    description: Any


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def render(value: Any) -> str:
    """The text that stands for a JSON value in a prompt: a string itself, else compact JSON with sorted keys."""
    return value if isinstance(value, str) else _COMPACT.encode(value)


def field_head(number: int, question_id: str, question_type: str) -> str:
    """The piece before a question's instructions; `number` counts from 1."""
    return f"\nFIELD {number}\nID: {question_id}\nTYPE: {question_type}\nINSTRUCTION: "


def instruction(question_id: str, question: Question) -> str:
    """What is asked: the question's id where it has no instructions."""
    value = question.instructions
    return question_id if value is None or value == "" else render(value)


def option_head(number: int) -> str:
    """The piece before an option; `number` counts from 1."""
    return f"OPTION {number}: "


def option_text(option: Option) -> str:
    """The option's own piece."""
    named = {"option_id": option.id}
    return render(named if option.description is None else named | {"description": option.description})


def options(question: Question) -> list[Option]:
    """A question's options in head order: true before false, choices by code point, levels from the lowest."""
    if isinstance(question, Noul):
        described = _NOUL_DEFAULTS | (question.criteria or {})
        return [Option(side, described[side]) for side in ("true", "false")]
    if isinstance(question, Choice):
        return [Option(key, question.criteria[key]) for key in sorted(question.criteria)]
    return [Option(str(level), description) for level, description in enumerate(question.criteria)]


def plan_question(question_id: str, question: Question) -> PlannedQuestion:
    """What the answer needs to know of the question."""
    ids = tuple(option.id for option in options(question))
    if isinstance(question, Noul):
        return PlannedQuestion(question_id, "noul", ids, (0, 1))
    if isinstance(question, Choice):
        head = {option: index for index, option in enumerate(ids)}
        return PlannedQuestion(question_id, "choice", ids, tuple(head[option] for option in question.criteria))
    return PlannedQuestion(question_id, "score", ids, tuple(range(len(ids))), tuple(question.criteria))
