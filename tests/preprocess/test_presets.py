from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from preprocess.errors import ValidationFailed
from preprocess.preprocessor import Preprocessor
from preprocess.presets import PRESETS, with_preset
from preprocess.schema import parse_request
from preprocess.settings import Settings


def kinds(questions: dict[str, Any]) -> list[str]:
    """`id:type`, and how many options a choice or a score has."""
    sizes = {name: "" if q["type"] == "noul" else str(len(q["criteria"])) for name, q in questions.items()}
    return [f"{name}:{question['type']}{sizes[name]}" for name, question in questions.items()]


def test_names() -> None:
    assert list(PRESETS) == ["triage", "email", "guard", "moderation", "router"]


def test_triage_asks_what_its_users_expect() -> None:
    assert kinds(PRESETS["triage"].questions) == [
        "intent:choice6",
        "is_urgent:noul",
        "frustration:score4",
        "refund_requested:noul",
        "churn_risk:noul",
    ]


@pytest.mark.parametrize("name", PRESETS)
def test_each_stands_for_its_questions(name: str, settings: Settings) -> None:
    questions = PRESETS[name].questions
    named = parse_request(json.dumps({"state": "s", "x_preset": name}).encode(), settings)
    spelled = parse_request(json.dumps({"state": "s", "questions": questions}).encode(), settings)
    assert named.questions == spelled.questions
    assert list(named.questions) == list(questions)
    assert all(question["instructions"] for question in questions.values())
    assert PRESETS[name].description


def test_the_ensemble_takes_it_as_it_takes_the_questions(settings: Settings) -> None:
    preprocess = Preprocessor(settings)
    named = preprocess(b'{"state":"Refund me!","x_preset":"triage"}', None, {})
    spelled = preprocess(
        json.dumps({"state": "Refund me!", "questions": PRESETS["triage"].questions}).encode(), None, {}
    )
    for tensor in named:
        assert np.array_equal(named[tensor], spelled[tensor])


def test_own_questions_come_after_it_and_stand_in_for_its() -> None:
    urgent = {"type": "noul", "instructions": "Is it a matter of hours?"}
    body = with_preset({"x_preset": "triage", "questions": {"mine": {"type": "noul"}, "is_urgent": urgent}})
    assert list(body["questions"]) == [*PRESETS["triage"].questions, "mine"]
    assert body["questions"]["is_urgent"] is urgent
    assert PRESETS["triage"].questions["is_urgent"] is not urgent


def test_its_questions_count_to_the_limit(settings: Settings) -> None:
    with pytest.raises(ValidationFailed, match="5"):
        parse_request(b'{"state": 1, "x_preset": "triage"}', settings.overridden({"max_questions": 4}))


@pytest.mark.parametrize("body", [{"state": 1, "questions": {}}, {"state": 1, "x_preset": None}])
def test_none_named(body: dict[str, Any]) -> None:
    assert with_preset(body) is body


@pytest.mark.parametrize("name", ["canary7261", "", 5, True, ["triage"], {"triage": 1}])
def test_unknown(name: Any, settings: Settings) -> None:
    with pytest.raises(ValidationFailed) as caught:
        parse_request(json.dumps({"state": 1, "x_preset": name}).encode(), settings)
    (issue,) = caught.value.detail
    assert issue["loc"] == ["body", "x_preset"]
    assert "triage, email" in issue["msg"] and "canary" not in issue["msg"]


@pytest.mark.parametrize("questions", [[], "triage", 5])
def test_what_is_no_question_stays_wrong(questions: Any, settings: Settings) -> None:
    with pytest.raises(ValidationFailed) as caught:
        parse_request(json.dumps({"state": 1, "x_preset": "triage", "questions": questions}).encode(), settings)
    assert caught.value.detail[0]["loc"] == ["body", "questions"]
