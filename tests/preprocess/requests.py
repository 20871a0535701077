"""Bodies for the validator, and what it says of those that it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from preprocess.errors import MAX_JSON_BYTES, ValidationFailed
from preprocess.schema import Request, parse_request
from preprocess.settings import Settings

SECRET = "s3cr3t-v4lue"
NOUL = {"type": "noul", "instructions": "Is a service down?"}


def read(settings: Settings, **fields: Any) -> Request:
    body = {"model": "clef-flash", "state": "x", "questions": {"q": NOUL}} | fields
    return parse_request(json.dumps(body).encode(), settings)


def issues(settings: Settings, **fields: Any) -> list[dict[str, Any]]:
    """The issues of a body that must be refused with 422."""
    with pytest.raises(ValidationFailed) as caught:
        read(settings, **fields)
    text = caught.value.to_json()
    assert SECRET not in text
    assert len(text.encode()) <= MAX_JSON_BYTES
    return list(caught.value.detail)


def places(settings: Settings, **fields: Any) -> list[list[str | int]]:
    return [issue["loc"] for issue in issues(settings, **fields)]


def ask(question: Any) -> dict[str, Any]:
    return {"q": question}
