from __future__ import annotations

import json
from typing import Any

import pytest

from frontend.openai_translation import from_systemone, speaks, to_systemone
from preprocess.errors import ValidationFailed

PREDICATE = {"type": "predicate", "instructions": "A service is down."}
URL = "data:image/png;base64,AAAA"
IMAGE = {"type": "input_image", "image_url": URL, "detail": "low", "prompt_cache_breakpoint": {"mode": "explicit"}}


def text(value: str) -> dict[str, Any]:
    return {"type": "input_text", "text": value}


def asked(**fields: Any) -> dict[str, Any]:
    """The ensemble's request for one of OpenAI's."""
    return json.loads(to_systemone({"input": "s", "questions": [PREDICATE], **fields}).body)


def answered(questions: list[Any], *answers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """OpenAI's answer for SystemOne's answers to these questions."""
    translation = to_systemone({"input": "s", "questions": questions})
    response = {
        "model": "clef",
        "answers": dict(zip(translation.ids, answers, strict=True)),
        "usage": {"input_tokens": 7, "output_tokens": 0},
        **fields,
    }
    return json.loads(from_systemone(json.dumps(response).encode(), translation))


def refused(**fields: Any) -> list[dict[str, Any]]:
    with pytest.raises(ValidationFailed) as caught:
        asked(**fields)
    assert isinstance(caught.value.detail, list)
    return caught.value.detail


@pytest.mark.parametrize(
    ("body", "theirs"),
    [
        ({"input": "s", "questions": []}, True),
        ({"input": None, "questions": [1]}, True),
        ({"input": "s", "questions": {}}, True),
        ({"input": "s", "questions": None}, True),
        ({"input": "s"}, True),
        ({"input": "s", "questions": {"q": {}}}, False),
        ({"input": "s", "state": None}, False),
        ({"input": "s", "state": "s", "questions": {}}, False),
        ({"input": "s", "state": "s", "questions": [1]}, True),
        ({"state": "s", "questions": []}, False),
        ({}, False),
    ],
)
def test_the_bodys_shape_says_who_speaks(body: dict[str, Any], theirs: bool) -> None:
    assert speaks(body) is theirs


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ("Hello.", "Hello."),
        ("", ""),
        ([{"role": "user", "content": "Hello."}], "Hello."),
        ([{"role": "user", "content": [text("Hello.")]}], "Hello."),
        ([{"type": "message", "role": "user", "content": [text("a"), text("b")]}], ["a", "b"]),
        ([{"role": "user", "content": [{"type": "input_json", "data": {"b": 1.0, "a": [2]}}]}], {"b": 1.0, "a": [2]}),
        ([{"role": "user", "content": [{"type": "input_json", "data": [{"a": 1}]}, IMAGE]}], [[{"a": 1}], "image 1"]),
        ([{"role": "developer", "content": "Hello."}], [{"role": "developer", "content": "Hello."}]),
        (
            [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": [text("See:"), IMAGE]},
                {"role": "assistant", "content": [{"type": "output_text", "text": "I see."}]},
                {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}], "phase": "final_answer"},
            ],
            [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": ["See:", "image 1"]},
                {"role": "assistant", "content": "I see."},
                {"role": "assistant", "content": "No."},
            ],
        ),
        (
            [
                {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1", "id": "x", "status": None},
                {"type": "function_call_output", "call_id": "1", "output": [text("done"), IMAGE]},
                {"type": "custom_tool_call", "name": "g", "input": "i", "call_id": "2", "namespace": "n"},
                {"type": "custom_tool_call_output", "call_id": "2", "output": "done"},
            ],
            [
                {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"},
                {"type": "function_call_output", "call_id": "1", "output": ["done", "image 1"]},
                {"type": "custom_tool_call", "name": "g", "input": "i", "call_id": "2"},
                {"type": "custom_tool_call_output", "call_id": "2", "output": "done"},
            ],
        ),
        ([], []),
    ],
)
def test_the_input_is_the_state(value: Any, state: Any) -> None:
    assert asked(input=value)["state"] == state


def test_images_are_numbered_as_they_come_and_keep_their_places() -> None:
    translation = to_systemone(
        {
            "input": [{"role": "user", "content": "a"}, {"role": "user", "content": [text("b"), IMAGE]}],
            "questions": [PREDICATE, {"type": "predicate", "instructions": [text("Like this?"), IMAGE]}],
        }
    )
    request = json.loads(translation.body)
    assert request["images"] == [URL, URL]
    assert request["state"][1]["content"] == ["b", "image 1"]
    assert request["questions"]["question_2"]["instructions"] == ["Like this?", "image 2"]
    assert translation.move(["body", "images", 0]) == ["body", "input", 1, "content", 1, "image_url"]
    assert translation.move(["body", "images", 1, "x"]) == ["body", "questions", 1, "instructions", 1, "image_url"]
    assert translation.move(["body", "images", 2]) == ["body", "images", 2]


def test_questions() -> None:
    questions = [
        {**PREDICATE, "name": "down"},
        {"type": "predicate"},
        {"type": "choice", "instructions": "Who?", "choices": [{"value": "b"}, {"value": "a", "description": "A!"}]},
        {"type": "score", "name": "hot", "levels": [{"label": "cold"}, {"label": "hot", "description": "over 30 °C"}]},
    ]
    assert asked(questions=questions)["questions"] == {
        "down": {"type": "noul", "instructions": "A service is down."},
        "question_2": {"type": "noul", "instructions": None},
        "question_3": {"type": "choice", "instructions": "Who?", "criteria": {"b": None, "a": "A!"}},
        "hot": {"type": "score", "instructions": None, "criteria": ["cold", "hot: over 30 °C"]},
    }
    assert list(asked(questions=questions)["questions"]) == ["down", "question_2", "question_3", "hot"]


def test_what_is_made_up_meets_no_name_of_the_clients() -> None:
    questions = [PREDICATE, {**PREDICATE, "name": "question_1"}, {**PREDICATE, "name": ""}]
    assert to_systemone({"input": "s", "questions": questions}).ids == ("question_1_", "question_1", "question_3")
    choices = [{"value": True}, {"value": "true"}, {"value": False}]
    question = asked(questions=[{"type": "choice", "choices": choices}])["questions"]["question_1"]
    assert list(question["criteria"]) == ["true_", "true", "false"]


def test_our_own_fields_and_the_model_go_on() -> None:
    assert asked(model="clef", x_independent=True, x_truncate=False, prompt_cache_key="k") == {
        "model": "clef",
        "state": "s",
        "questions": {"question_1": {"type": "noul", "instructions": "A service is down."}},
        "images": [],
        "x_independent": True,
        "x_truncate": False,
    }
    assert "model" not in asked() and "model" not in asked(model=None)


def test_answers_in_the_order_of_the_questions() -> None:
    questions = [
        {"type": "choice", "choices": [{"value": True}, {"value": "true"}, {"value": "10"}, {"value": "2"}]},
        {"type": "predicate", "name": "down"},
        {"type": "score", "levels": [{"label": "lo"}, {"label": "hi", "description": "d"}]},
    ]
    content = answered(
        questions,
        {
            "type": "choice",
            "choice": "true_",
            "confidence": 0.4,
            "probabilities": {"true_": 0.4, "true": 0.3, "10": 0.2, "2": 0.1},
        },
        {"type": "noul", "noul": 0.9},
        {
            "type": "score",
            "score": 0.25,
            "confidence": 0.75,
            "legend": {"0": "lo", "1": "hi: d"},
            "probabilities": {"0": 0.75, "1": 0.25},
        },
        x_state_truncated={"kept": 1, "dropped": 2},
    )
    assert content == {
        "answers": [
            {
                "type": "choice",
                "name": None,
                "choice": True,
                "confidence": 0.4,
                "probabilities": [
                    {"value": True, "probability": 0.4},
                    {"value": "true", "probability": 0.3},
                    {"value": "10", "probability": 0.2},
                    {"value": "2", "probability": 0.1},
                ],
            },
            {"type": "predicate", "name": "down", "probability": 0.9},
            {
                "type": "score",
                "name": None,
                "score": 0.25,
                "confidence": 0.75,
                "probabilities": [
                    {"label": "lo", "value": 0, "probability": 0.75},
                    {"label": "hi", "value": 1, "probability": 0.25},
                ],
            },
        ],
        "model": "clef",
        "usage": {
            "input_tokens": 7,
            "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 7,
        },
        "x_state_truncated": {"kept": 1, "dropped": 2},
    }


def choice(*choices: Any) -> dict[str, Any]:
    return {"questions": [PREDICATE, {"type": "choice", "choices": list(choices)}]}


def score(*levels: Any) -> dict[str, Any]:
    return {"questions": [{"type": "score", "levels": list(levels)}]}


def message(**fields: Any) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": "x"}, {"role": "user", **fields}]}


@pytest.mark.parametrize(
    ("fields", "loc"),
    [
        ({"input": None}, ["input"]),
        ({"input": 5}, ["input"]),
        ({"input": {"role": "user"}}, ["input"]),
        ({"input": [5]}, ["input", 0]),
        ({"input": [{"type": "canary7261"}]}, ["input", 0]),
        ({"input": [{"type": "function_call", "name": "f", "call_id": "c"}]}, ["input", 0, "arguments"]),
        ({"input": [{"content": "x"}]}, ["input", 0, "role"]),
        (message(role="canary7261", content="x"), ["input", 1, "role"]),
        (message(content=None), ["input", 1, "content"]),
        (message(content=[5]), ["input", 1, "content", 0]),
        (message(content=[text("x"), {"type": "input_file"}]), ["input", 1, "content", 1]),
        (message(content=[{"type": "input_text", "text": 5}]), ["input", 1, "content", 0, "text"]),
        (message(content=[{"type": "input_image", "file_id": "f"}]), ["input", 1, "content", 0, "image_url"]),
        (message(content=[{"type": "input_json", "data": "x"}]), ["input", 1, "content", 0, "data"]),
        ({"model": 5}, ["model"]),
        ({"questions": []}, ["questions"]),
        ({"questions": [5]}, ["questions", 0]),
        ({"questions": [PREDICATE] * 256}, ["questions"]),
        ({"questions": [PREDICATE, {"type": "canary7261"}]}, ["questions", 1]),
        ({"questions": [{}]}, ["questions", 0]),
        ({"questions": [{**PREDICATE, "name": 5}]}, ["questions", 0, "name"]),
        ({"questions": [{**PREDICATE, "name": "a"}, {**PREDICATE, "name": "a"}]}, ["questions"]),
        ({"questions": [{"type": "predicate", "instructions": 5}]}, ["questions", 0, "instructions"]),
        ({"questions": [{"type": "choice"}]}, ["questions", 0, "choices"]),
        (choice(), ["questions", 1, "choices"]),
        (choice(5), ["questions", 1, "choices", 0]),
        (choice({"value": "a"}, {"value": 1}), ["questions", 1, "choices", 1, "value"]),
        (choice({"value": "a"}, {"value": "a"}), ["questions", 1, "choices"]),
        (choice({"value": True}, {"value": True}), ["questions", 1, "choices"]),
        (choice({"value": "a", "description": 5}), ["questions", 1, "choices", 0, "description"]),
        (choice(*({"value": str(k)} for k in range(256))), ["questions", 1, "choices"]),
        (score(), ["questions", 0, "levels"]),
        (score({"label": "a"}, {}), ["questions", 0, "levels", 1, "label"]),
        (score(*({"label": "a"} for _ in range(11))), ["questions", 0, "levels"]),
    ],
    ids=str,
)
def test_what_is_refused_and_where(fields: dict[str, Any], loc: list[Any]) -> None:
    (issue,) = refused(**fields)
    assert issue["loc"] == ["body", *loc]
    assert issue["msg"] and "canary" not in issue["msg"] and "(" not in str(issue["loc"])


def test_a_million_faults_cost_one() -> None:
    many = [5] * 1_000_000
    for fields in ({"questions": many}, {"input": many}, choice(*many)):
        assert len(refused(**fields)) == 1


def test_places_of_the_ensembles_request() -> None:
    questions = [{**PREDICATE, "name": "p"}, {"type": "choice", "choices": [{"value": "a"}]}]
    questions.append({"type": "score", "name": "s", "levels": [{"label": "a"}]})
    move = to_systemone({"input": "s", "questions": questions}).move
    assert move(["body", "questions", "p", "noul", "instructions"]) == ["body", "questions", 0]
    assert move(["body", "questions", "question_2", "choice", "criteria", "a"]) == ["body", "questions", 1, "choices"]
    assert move(["body", "questions", "s", "score", "criteria"]) == ["body", "questions", 2, "levels"]
    for elsewhere in (["body", "questions"], ["body", "state"], ["body", "questions", "unknown"]):
        assert move(elsewhere) == elsewhere
