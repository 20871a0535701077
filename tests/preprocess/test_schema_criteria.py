"""Criteria of each type of question, as the contract's "Request" has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from preprocess.settings import Settings
from tests.preprocess.requests import NOUL, SECRET, ask, places, read

DESCRIPTIONS = [None, "", "text", "x" * 3_000, {}, {"a": [1]}, [], ["x"]]


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_a_noul_describes_either_side_or_neither(settings: Settings, description: Any) -> None:
    for criteria in (
        None,
        {},
        {"true": description},
        {"false": description},
        {"true": description, "false": description},
    ):
        question = {"type": "noul", "criteria": criteria}
        assert read(settings, questions=ask(question)).questions["q"].criteria == criteria


@pytest.mark.parametrize(
    ("criteria", "place"),
    [
        ({"yes": SECRET}, ["yes", "[key]"]),
        ({"true": None, "True": SECRET}, ["True", "[key]"]),
        ({"true": 5}, ["true"]),
        ({"false": True}, ["false"]),
        ({"true": 0.5}, ["true"]),
        ([], []),
        ([SECRET], []),
        (SECRET, []),
        (5, []),
        (False, []),
        ({str(k): SECRET for k in range(100_000)}, []),
    ],
)
def test_other_criteria_of_a_noul_are_refused(settings: Settings, criteria: Any, place: list[str]) -> None:
    question = {"type": "noul", "criteria": criteria}
    assert places(settings, questions=ask(question)) == [["body", "questions", "q", "noul", "criteria", *place]]


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_a_choice_describes_its_options_or_does_not(settings: Settings, description: Any) -> None:
    criteria = {"b": description, "10": None, "2": description, "": description, " b": None, "b ": "x"}
    taken = read(settings, questions=ask({"type": "choice", "criteria": criteria})).questions["q"].criteria
    assert json.dumps(taken) == json.dumps(criteria)


def test_the_number_of_options_is_bounded(settings: Settings) -> None:
    place = ["body", "questions", "q", "choice", "criteria"]
    options = {f"o{k}": None for k in range(256)}
    assert places(settings, questions=ask({"type": "choice", "criteria": options})) == [place]
    options.popitem()
    taken = read(settings, questions=ask({"type": "choice", "criteria": options})).questions["q"].criteria
    assert taken is not None and len(taken) == 255
    few = settings.model_copy(update={"max_options": 2})
    assert read(few, questions=ask({"type": "choice", "criteria": {"a": None, "b": None}}))
    assert places(few, questions=ask({"type": "choice", "criteria": {"a": None, "b": None, "c": None}})) == [place]
    assert places(settings, questions=ask({"type": "choice", "criteria": {}})) == [place]
    assert read(settings, questions=ask({"type": "choice", "criteria": {"only": None}}))


@pytest.mark.parametrize("criteria", [None, [], ["a", SECRET], SECRET, 5, True])
def test_a_choices_criteria_are_an_object(settings: Settings, criteria: Any) -> None:
    place = ["body", "questions", "q", "choice", "criteria"]
    assert places(settings, questions=ask({"type": "choice", "criteria": criteria})) == [place]
    assert places(settings, questions=ask({"type": "choice"})) == [place]


@pytest.mark.parametrize("description", [5, 0.5, True, False])
def test_numbers_and_booleans_describe_no_option(settings: Settings, description: Any) -> None:
    question = {"type": "choice", "criteria": {"a": "x", "b": description, "c": description}}
    place = ["body", "questions", "q", "choice", "criteria"]
    assert places(settings, questions=ask(question)) == [[*place, "b"], [*place, "c"]]


@pytest.mark.parametrize("count", [1, 2, 10])
def test_a_score_has_one_to_ten_levels(settings: Settings, count: int) -> None:
    levels = ["x", {"a": 1}, ["y"], "", {}, [], "x", "z", "0", "9"][:count]
    assert read(settings, questions=ask({"type": "score", "criteria": levels})).questions["q"].criteria == levels


@pytest.mark.parametrize("criteria", [None, [], ["x"] * 11, [5] * 100_000, {"0": "a"}, {}, SECRET, 5])
def test_other_numbers_and_shapes_of_levels_are_refused(settings: Settings, criteria: Any) -> None:
    place = ["body", "questions", "q", "score", "criteria"]
    assert places(settings, questions=ask({"type": "score", "criteria": criteria})) == [place]
    assert places(settings, questions=ask({"type": "score"})) == [place]


@pytest.mark.parametrize("level", [None, 5, 0.5, True])
def test_a_level_is_a_text_or_a_structure(settings: Settings, level: Any) -> None:
    place = ["body", "questions", "q", "score", "criteria", 1]
    assert places(settings, questions=ask({"type": "score", "criteria": ["x", level]})) == [place]


def test_every_question_is_looked_at(settings: Settings) -> None:
    bad = {"a": {"type": "score", "criteria": [None]}, "b": NOUL, "c": {"type": "choice", "criteria": {"x": 1}}}
    assert places(settings, questions=bad) == [
        ["body", "questions", "a", "score", "criteria", 0],
        ["body", "questions", "c", "choice", "criteria", "x"],
    ]
