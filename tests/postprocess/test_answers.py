"""Logits to answers: the publisher's, and the ones that the contract adds."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postprocess.answers import answer, softmax
from preprocess.errors import InvalidRequest
from preprocess.plan import Plan, PlannedQuestion, Truncated
from tests.golden_cases import CASES
from tests.invariants import assert_answer, assert_close, options_of


def plan_of(request, tokens=10, **changes) -> Plan:
    """The plan of a request, built here in the plainest way: choice options sorted, the others as they come."""
    questions = []
    for name, question in request["questions"].items():
        options = options_of(question)
        head = sorted(options) if question["type"] == "choice" else options
        legend = tuple(question["criteria"]) if question["type"] == "score" else None
        order = tuple(head.index(option) for option in options)
        questions.append(PlannedQuestion(name, question["type"], tuple(head), order, legend))
    fields = {"truncated": None, "confidence": "top", "digits": 4} | changes
    return Plan(request.get("model", "clef-flash"), tuple(questions), tokens, **fields)


def ask(request, logits, **changes):
    plan = Plan.from_json(plan_of(request, **changes).to_json())
    body, probabilities = answer(plan, np.array(logits, dtype=np.float32))
    return json.loads(body), probabilities


CHOICE = {"questions": {"q": {"type": "choice", "criteria": {"b": None, "10": None, "2": None, "a": None}}}}
SCORE = {"questions": {"q": {"type": "score", "criteria": ["low", {"mid": 1}, "high"]}}}


@pytest.mark.parametrize("name", CASES)
def test_the_publishers_logits_give_the_publishers_answer(name):
    request, reference = CASES[name]["request"], CASES[name]["reference"]
    logits = [logit for question in reference["logits"] for logit in question]
    response, _ = ask(request, logits, tokens=reference["usage"]["input_tokens"] if "usage" in reference else 1)
    response["usage"] = reference["response"]["usage"]
    assert_answer(request, response)
    assert_close(response, reference["response"])


def test_options_come_back_in_the_order_of_the_request_byte_for_byte():
    body, _ = answer(plan_of(CHOICE), np.array([0, 0, 0, 0], dtype=np.float32))
    assert b'"probabilities":{"b":0.25,"10":0.25,"2":0.25,"a":0.25}' in body
    assert json.loads(body)["answers"]["q"]["choice"] == "b", "the first most probable one in request order"


def test_probabilities_are_in_head_order():
    _, probabilities = ask(CHOICE, [0, 0, 0, math.log(3)])  # head order: 10, 2, a, b
    assert probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities, [1 / 6, 1 / 6, 1 / 6, 1 / 2], atol=1e-7)


def test_typesafe_confidence_of_a_choice():
    response, _ = ask(CHOICE, [0, 0, 0, math.log(3)], confidence="typesafe")
    assert response["answers"]["q"]["confidence"] == pytest.approx((1 / 2 - 1 / 4) / (1 - 1 / 4), abs=1e-4)


def test_typesafe_confidence_of_a_score():
    response, _ = ask(SCORE, np.log([0.5, 0.3, 0.2]), confidence="typesafe")
    # Spread about level 0: 0.3·1 + 0.2·2; a uniform distribution's about the middle: (1 + 0 + 1) / 3.
    assert response["answers"]["q"]["confidence"] == pytest.approx(max(0, 1 - 0.7 / (2 / 3)), abs=1e-4)
    certain, _ = ask(SCORE, [0, 50, 0], confidence="typesafe")
    assert certain["answers"]["q"]["confidence"] == 1


@pytest.mark.parametrize("confidence", ["top", "typesafe"])
def test_one_option_is_certain(confidence):
    choice, _ = ask({"questions": {"q": {"type": "choice", "criteria": {"only": None}}}}, [-3], confidence=confidence)
    score, _ = ask({"questions": {"q": {"type": "score", "criteria": ["only"]}}}, [-3], confidence=confidence)
    assert choice["answers"]["q"]["confidence"] == score["answers"]["q"]["confidence"] == 1
    assert score["answers"]["q"]["score"] == 0


def test_digits_and_what_was_cut():
    response, _ = ask(CHOICE, [0, 0, 0, 1], digits=8, truncated=Truncated(kept=5, dropped=7))
    assert response["x_state_truncated"] == {"kept": 5, "dropped": 7}
    top = math.e / (3 + math.e)
    assert response["answers"]["q"]["confidence"] == pytest.approx(top, abs=1e-7)


@pytest.mark.parametrize("logits", [[], [0, 0, 0], [0, 0, 0, 0, 0]])
def test_logits_of_another_request_are_refused_with_both_counts(logits):
    with pytest.raises(InvalidRequest) as caught:
        ask(CHOICE, logits)
    message = f"LOGITS has {len(logits)} logits; the PLAN's questions have 4 options."
    assert caught.value.detail == {"error_type": "invalid_request_error", "message": message}


@pytest.mark.parametrize("logits", [[0, 0, 0, math.nan], [0, 0, 0, math.inf]])
def test_a_broken_model_does_not_answer(logits):
    with pytest.raises(ValueError):
        ask(CHOICE, logits)


@given(st.lists(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=20), min_size=1, max_size=8))
def test_softmax_is_one_distribution_a_question(questions):
    counts = np.array([len(question) for question in questions])
    flat = np.array([logit for question in questions for logit in question], dtype=np.float32)
    for question, part in zip(questions, np.split(softmax(flat, counts), np.cumsum(counts)[:-1]), strict=True):
        assert part.sum() == pytest.approx(1, abs=1e-12)
        exact = [math.exp(logit - max(question)) for logit in question]
        np.testing.assert_allclose(part, np.array(exact) / sum(exact), atol=1e-12)
