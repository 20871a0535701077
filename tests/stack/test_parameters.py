"""What a request may choose for itself, over HTTP by `x_` fields and at the ensemble by parameters."""

from __future__ import annotations

import json

import httpx
import pytest
from tritonclient.utils import InferenceServerException

from preprocess.errors import ServiceError
from tests.golden_cases import CASES, TRUNCATED
from tests.invariants import assert_answer, assert_close
from tests.stack.running import ask, response_of

GOOD = CASES["three-types"]["request"]
LIMITS_OF_GOOD = {"max_questions": 2, "max_length": 100, "max_body_bytes": 100}


def posted(http: httpx.Client, request: dict) -> dict:
    answer = http.post("/v1/systemone", json=request)
    assert answer.status_code == 200, answer.text
    assert_answer(request, answer.json())
    return answer.json()


def test_independent_answers_know_nothing_of_each_other(http, grpc):
    """Renaming, adding and reordering questions moves no answer."""
    questions = GOOD["questions"]
    assert all(question.get("instructions") for question in questions.values())
    alone = posted(http, GOOD | {"x_independent": True})["answers"]
    renamed = {f"another name for {name}": question for name, question in questions.items()}
    added = {"first": {"type": "noul", "instructions": "Is it late?"}, **questions, "last": {"type": "noul"}}
    reordered = dict(reversed(questions.items()))
    for changed in (renamed, added, reordered):
        response = posted(http, GOOD | {"questions": changed, "x_independent": True})
        for name, question in questions.items():
            [place] = [other for other in changed if changed[other] is question]
            assert_close(response["answers"][place], alone[name])
    direct = ask(grpc, GOOD, semantics="independent")
    assert_close(response_of(direct)["answers"], alone)
    joint = posted(http, GOOD)
    assert joint["answers"] != alone
    assert posted(http, GOOD | {"x_independent": False}) == joint


def test_independent_questions_count_the_tokens_of_each_record(http):
    together = posted(http, GOOD | {"x_independent": True})["usage"]["input_tokens"]
    apart = [
        posted(http, GOOD | {"questions": {name: question}, "x_independent": True})["usage"]["input_tokens"]
        for name, question in GOOD["questions"].items()
    ]
    assert together == sum(apart)


def test_a_state_is_cut_where_the_caller_wants_it(http, grpc):
    request = TRUNCATED["request"]
    direct = response_of(ask(grpc, request, overflow="truncate", max_length=256))
    assert direct["usage"]["input_tokens"] == 256
    assert direct["x_state_truncated"]["kept"] > 0 and direct["x_state_truncated"]["dropped"] > 0
    by_field = response_of(ask(grpc, request | {"x_truncate": True}, max_length=256))
    assert by_field == direct
    whole = posted(http, request | {"x_truncate": True})
    assert "x_state_truncated" not in whole
    sizes = direct["x_state_truncated"]
    assert whole["usage"]["input_tokens"] == 256 + sizes["dropped"]
    with pytest.raises(InferenceServerException) as caught:
        ask(grpc, request, max_length=256)
    error = ServiceError.from_json(caught.value.message())
    assert error.status == 413
    assert f"needs {whole['usage']['input_tokens']} tokens; 256 are allowed" in error.detail["message"]


def test_digits_and_confidence(grpc):
    plain = response_of(ask(grpc, GOOD))
    for digits in (1, 7):
        response = response_of(ask(grpc, GOOD, digits=digits))
        assert_close(response, plain, 0.5 * 10**-digits + 0.5e-4)
        numbers = [value for value in numbers_of(response) if isinstance(value, float)]
        assert all(value == round(value, digits) for value in numbers)
    assert any(value != round(value, 6) for value in numbers), "seven digits were asked for"
    typesafe = response_of(ask(grpc, GOOD, confidence="typesafe", digits=7))["answers"]
    for name, answer in typesafe.items():
        if answer["type"] == "choice":
            values = list(answer["probabilities"].values())
            assert answer["confidence"] == pytest.approx(
                (max(values) - 1 / len(values)) / (1 - 1 / len(values)), abs=1e-6
            )
        without = {key: value for key, value in answer.items() if key != "confidence"}
        assert_close(without, {key: value for key, value in plain["answers"][name].items() if key in without}, 1e-4)


def numbers_of(value: object) -> list[object]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers_of(item)]
    return [value]


@pytest.mark.parametrize("name", LIMITS_OF_GOOD)
def test_a_limit_is_lowered_and_never_raised(grpc, name):
    with pytest.raises(InferenceServerException) as caught:
        ask(grpc, GOOD, **{name: LIMITS_OF_GOOD[name]})
    assert ServiceError.from_json(caught.value.message()).status in (413, 422)
    too_many = GOOD | {"questions": {f"q{index}": {"type": "noul"} for index in range(65)}}
    with pytest.raises(InferenceServerException) as caught:
        ask(grpc, too_many, max_questions=255)
    error = ServiceError.from_json(caught.value.message())
    assert error.status == 422 and error.detail[0]["loc"] == ["body", "questions"]


def test_no_images_for_a_caller_who_may_send_none(grpc):
    request = CASES["image-native-grid"]["request"]
    with pytest.raises(InferenceServerException) as caught:
        ask(grpc, request, max_images=0)
    error = ServiceError.from_json(caught.value.message())
    assert error.status == 413
    assert "1 images; 0 are allowed" in json.dumps(error.detail)
