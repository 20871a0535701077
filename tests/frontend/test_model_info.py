from __future__ import annotations

import json
from typing import Any

import pytest

from frontend.decisions import request_settings
from frontend.model_info import ModelInfo

FIELDS: dict[str, Any] = {
    "name": "clef-flash",
    "aliases": ["clef", "clef-flash"],
    "description": "d",
    "release_date": "2026-10-01",
    "revision": "r",
    "size_bytes": 19_000_000_000,
    "settings": {"confidence": "typesafe"},
    "limits": {"max_questions": 7, "max_body_bytes": 1000, "something_new": 1},
}


def test_reads_every_field_and_names_each_model_once() -> None:
    info = ModelInfo.parse(json.dumps(FIELDS).encode())
    assert info.names == ("clef-flash", "clef")
    assert (info.description, info.release_date, info.revision) == ("d", "2026-10-01", "r")
    assert info.size_bytes == 19_000_000_000
    assert info.limits["max_questions"] == 7


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b"\xff", json.dumps({**FIELDS, "aliases": None}).encode()])
def test_anything_else_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):
        ModelInfo.parse(raw)


def test_its_limits_bind_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEF_MAX_QUESTIONS", "9")
    monkeypatch.setenv("CLEF_MODEL_NAME", "other")
    settings = request_settings(ModelInfo.parse(json.dumps(FIELDS).encode()))
    assert (settings.max_questions, settings.max_body_bytes) == (7, 1000)
    assert settings.known_models == ("clef-flash", "clef")
    assert settings.confidence == "typesafe"
