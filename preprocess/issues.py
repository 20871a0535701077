"""From pydantic's errors to the issues of a 422: what was sent is never repeated, and nothing speaks of Python."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

_TYPES = "Question type should be 'noul', 'choice' or 'score'"
# Where pydantic's own words repeat the value or speak of Python.
_MESSAGES = {
    "union_tag_invalid": _TYPES,
    "union_tag_not_found": "Question type is missing: 'noul', 'choice' or 'score'",
    "model_attributes_type": "Input should be an object",
    "model_type": "Input should be an object",
    "dict_type": "Input should be an object",
    "list_type": "Input should be an array",
    "too_short": "Input should not be empty",
    "string_too_short": "Input should not be empty",
}


def issues(error: ValidationError, *place: str | int) -> list[dict[str, Any]]:
    """`place` is where in the request the validated value stands."""
    found = error.errors(include_input=False, include_url=False)
    return [{"loc": [*place, *item["loc"]], "msg": _message(item), "type": item["type"]} for item in found]


def _message(item: ErrorDetails) -> str:
    # A question of the hosted models that Clef has no head for; the value is looked at, and not repeated.
    if item["type"] == "union_tag_invalid" and "box" in item["ctx"]["tag"].lower():
        return f"{_TYPES}: this model has no boxes"
    return _MESSAGES.get(item["type"], item["msg"])
