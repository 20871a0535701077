"""What is written of a request: rendered values, options in head order, and what the answer's plan keeps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from preprocess import prompt
from preprocess.plan import PlannedQuestion
from preprocess.prompt import Option
from preprocess.schema import Choice, Noul, Question, Score


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('"x \\"é\\""', 'x "é"'),
        ('""', ""),
        ('{"b": 1, "a": [1.0, 2.50, true, null, "é"]}', '{"a":[1.0,2.5,true,null,"é"],"b":1}'),
        ("[1250.0, 1e22, -0.0, 5e-324, 1E2, 0.1]", "[1250.0,1e+22,-0.0,5e-324,100.0,0.1]"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("null", "null"),
        ("true", "true"),
        ("{}", "{}"),
        ('{"é": 1, "z": 2, "Z": 3, "10": 4, "9": 5}', '{"10":4,"9":5,"Z":3,"z":2,"é":1}'),
        ('{"a": "\\u0000\\u2028\\n\\u007f"}', '{"a":"\\u0000\u2028\\n\x7f"}'),
    ],
)
def test_a_value_is_rendered_as_the_release_renders_it(body: str, text: str) -> None:
    assert prompt.render(json.loads(body)) == text


@pytest.mark.parametrize(
    ("instructions", "text"),
    [
        (None, "my id"),
        ("", "my id"),
        ("x", "x"),
        (" ", " "),
        ({}, "{}"),
        ([], "[]"),
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
    ],
)
def test_the_id_stands_in_for_missing_instructions(instructions: Any, text: str) -> None:
    assert prompt.instruction("my id", Noul(type="noul", instructions=instructions)) == text


TRUE, FALSE = "The proposition is true or the answer is yes.", "The proposition is false or the answer is no."


@pytest.mark.parametrize(
    ("criteria", "true", "false"),
    [
        (None, TRUE, FALSE),
        ({}, TRUE, FALSE),
        ({"true": "yes"}, "yes", FALSE),
        ({"false": ["no"]}, TRUE, ["no"]),
        ({"false": None, "true": ""}, "", None),
    ],
)
def test_a_noul_overrides_its_default_descriptions(criteria: Any, true: Any, false: Any) -> None:
    question = Noul(type="noul", criteria=criteria)
    assert prompt.options(question) == [Option("true", true), Option("false", false)]
    assert prompt.plan_question("q", question) == PlannedQuestion("q", "noul", ("true", "false"), (0, 1))


def test_a_choices_options_are_sorted_by_code_point() -> None:
    question = Choice(
        type="choice", criteria={"zeta": "z", "10": None, "9": "n", "Alpha": {}, "😀": [], "ￂ": "", "é": ""}
    )
    head = ("10", "9", "Alpha", "zeta", "é", "ￂ", "😀")
    assert tuple(option.id for option in prompt.options(question)) == head
    planned = prompt.plan_question("q", question)
    assert (planned.options, planned.legend) == (head, None)
    assert [planned.options[index] for index in planned.order] == list(question.criteria)


def test_a_scores_levels_stay_in_order() -> None:
    levels = ["low", {"b": 1, "a": 2}, [], *"3456789"]
    question = Score(type="score", criteria=levels)
    assert prompt.options(question) == [Option(str(k), level) for k, level in enumerate(levels)]
    planned = prompt.plan_question("q", question)
    assert planned == PlannedQuestion("q", "score", tuple("0123456789"), tuple(range(10)), tuple(levels))


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (Option("a", None), '{"option_id":"a"}'),
        (Option("a", ""), '{"description":"","option_id":"a"}'),
        (Option('"é', {"y": 1, "x": [None]}), '{"description":{"x":[null],"y":1},"option_id":"\\"é"}'),
    ],
)
def test_an_option_without_a_description_does_not_mention_it(option: Option, text: str) -> None:
    assert prompt.option_text(option) == text


def test_every_type_of_question_has_a_number() -> None:
    questions: list[Question] = [
        Noul(type="noul"),
        Choice(type="choice", criteria={"a": None}),
        Score(type="score", criteria=["a"]),
    ]
    assert [prompt.QUESTION_TYPES[question.type] for question in questions] == [0, 1, 2]
