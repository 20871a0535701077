"""The contract's "Request" but for its criteria: what is taken and what is refused, where, and without repeating it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from preprocess.errors import MAX_JSON_BYTES, InvalidRequest, RequestTooLarge, ServiceError, ValidationFailed
from preprocess.schema import parse_request
from preprocess.settings import Settings
from tests.golden_cases import CASES, RELEASE
from tests.preprocess.requests import NOUL, SECRET, ask, issues, places, read


@pytest.mark.parametrize("name", CASES)
def test_every_golden_request_is_taken(settings: Settings, name: str) -> None:
    request = parse_request(json.dumps(CASES[name]["request"]).encode(), settings)
    assert list(request.questions) == list(CASES[name]["request"]["questions"])


# The body


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"1", b"null", b"true"])
def test_a_body_that_is_no_object_is_no_request(settings: Settings, body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_request(body, settings)


def test_a_body_over_its_limit_is_too_large_before_it_is_read(settings: Settings) -> None:
    body = json.dumps({"state": "x", "questions": {"q": NOUL}}).encode()
    at_limit = settings.model_copy(update={"max_body_bytes": len(body)})
    assert parse_request(body, at_limit).state == "x"
    for past in (body + b" ", b"{" * (len(body) + 1)):
        with pytest.raises(RequestTooLarge, match=rf"{len(body) + 1} bytes; {len(body)} are allowed"):
            parse_request(past, at_limit)


def test_unknown_fields_are_ignored_everywhere(settings: Settings) -> None:
    question = NOUL | {"id": 5, "weight": SECRET}
    request = read(settings, provider={"a": 1}, temperature=0, questions=ask(question))
    assert request.questions["q"].instructions == "Is a service down?"


def test_missing_fields_are_named(settings: Settings) -> None:
    with pytest.raises(ValidationFailed) as caught:
        parse_request(b"{}", settings)
    assert [issue["loc"] for issue in caught.value.detail] == [["body", "state"], ["body", "questions"]]


# The model


@pytest.mark.parametrize("model", ["clef-flash", "clef", "jev-latest", "clef:flash", "@cf/cloudflare/clef-flash"])
def test_each_name_and_alias_is_taken_and_kept(settings: Settings, model: str) -> None:
    assert read(settings, model=model).model == model


def test_a_missing_model_is_the_servers(settings: Settings) -> None:
    own = settings.model_copy(update={"model_name": "mine"})
    assert read(own, model=None).model == "mine"
    assert parse_request(json.dumps({"state": 1, "questions": {"q": NOUL}}).encode(), own).model == "mine"


@pytest.mark.parametrize("model", [SECRET, "", "CLEF", " clef"])
def test_an_unknown_model_is_told_the_known_ones(settings: Settings, model: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(settings, model=model)
    assert caught.value.status == 400
    assert isinstance(caught.value.detail, dict)
    assert caught.value.detail["error_type"] == "api_usage_error"
    assert all(name in caught.value.detail["message"] for name in settings.known_models)
    assert SECRET not in caught.value.to_json()


@pytest.mark.parametrize("model", [5, True, [], {}])
def test_a_model_is_a_string(settings: Settings, model: Any) -> None:
    assert places(settings, model=model) == [["body", "model"]]


# The state


@pytest.mark.parametrize("state", [None, True, 0, -0.5, "", "x", [], {}, [1, {"a": None}], {"b": 1, "a": 2.0}])
def test_any_json_value_is_a_state(settings: Settings, state: Any) -> None:
    assert repr(read(settings, state=state).state) == repr(state)


# Questions


def test_the_number_of_questions_is_bounded(settings: Settings) -> None:
    many = {f"q{k}": NOUL for k in range(65)}
    assert places(settings, questions=many) == [["body", "questions"]]
    del many["q0"]
    assert len(read(settings, questions=many).questions) == 64
    wide = settings.model_copy(update={"max_questions": 255})
    many = {f"q{k}": NOUL for k in range(256)}
    assert issues(wide, questions=many)[0]["type"] == "too_long"
    del many["q0"]
    assert len(read(wide, questions=many).questions) == 255


@pytest.mark.parametrize("questions", [{}, None, [], "x", 5, [NOUL]])
def test_questions_are_an_object_that_is_not_empty(settings: Settings, questions: Any) -> None:
    assert places(settings, questions=questions) == [["body", "questions"]]


def test_a_question_id_is_any_string_but_the_empty_one(settings: Settings) -> None:
    names = ["b", "a", "2", "10", " ", "é", "e\u0301", "질문", "\0", '"', "x" * 5_000]
    assert list(read(settings, questions=dict.fromkeys(names, NOUL)).questions) == names
    assert places(settings, questions={"": NOUL}) == [["body", "questions", "", "[key]"]]


@pytest.mark.parametrize(
    "question", [None, 5, SECRET, [SECRET], {}, {"type": SECRET}, {"type": None}, {"type": 5}, {"type": [SECRET]},
                 {"type": {"noul": SECRET}}, {"type": "Noul"}, {"type": "box", "criteria": SECRET}],
)  # fmt: skip
def test_a_question_has_one_of_three_types(settings: Settings, question: Any) -> None:
    assert places(settings, questions=ask(question)) == [["body", "questions", "q"]]


@pytest.mark.parametrize("kind", ["noul", "choice", "score"])
@pytest.mark.parametrize("instructions", [None, "", "x", {}, {"a": 1}, [], ["x", 1]])
def test_instructions_are_a_string_or_a_structure_or_nothing(settings: Settings, kind: str, instructions: Any) -> None:
    criteria = {"noul": None, "choice": {"a": None}, "score": ["a"]}[kind]
    question = {"type": kind, "instructions": instructions, "criteria": criteria}
    assert read(settings, questions=ask(question)).questions["q"].instructions == instructions
    del question["instructions"]
    assert read(settings, questions=ask(question)).questions["q"].instructions is None


@pytest.mark.parametrize("kind", ["noul", "choice", "score"])
@pytest.mark.parametrize("instructions", [5, 0, 1.5, True, False])
def test_numbers_and_booleans_are_no_instructions(settings: Settings, kind: str, instructions: Any) -> None:
    criteria = {"noul": None, "choice": {"a": None}, "score": ["a"]}[kind]
    question = {"type": kind, "instructions": instructions, "criteria": criteria}
    assert places(settings, questions=ask(question)) == [["body", "questions", "q", kind, "instructions"]]


# Images, in their form here; what they hold is in test_image_references and test_images


def test_the_forms_of_an_image_are_strings_in_the_end(settings: Settings) -> None:
    request = read(settings, images=["data:image/png;base64,AA==", "AA==", {"url": "AA==", "detail": "high"}])
    assert request.images == ["data:image/png;base64,AA==", "AA==", "AA=="]
    assert read(settings, images=[]).images == []
    assert read(settings, images=None).images is None


@pytest.mark.parametrize(
    "image", [5, None, [], {}, {"url": None}, {"url": 5}, {"uri": SECRET}, {"url": {"url": SECRET}}]
)
def test_other_forms_of_an_image_are_refused_by_index(settings: Settings, image: Any) -> None:
    assert places(settings, images=["AA==", image]) == [["body", "images", 1]]


@pytest.mark.parametrize("images", ["AA==", {"url": SECRET}, 5, True])
def test_images_are_an_array(settings: Settings, images: Any) -> None:
    assert places(settings, images=images) == [["body", "images"]]


def test_the_number_of_images_is_bounded_before_they_are_looked_at(settings: Settings) -> None:
    assert len(read(settings, images=["AA=="] * 4).images or []) == 4
    for images in (["AA=="] * 5, [5] * 100_000):
        with pytest.raises(RequestTooLarge, match=f"{len(images)} images; 4 are allowed"):
            read(settings, images=images)


def test_images_have_to_leave_room_in_the_tokens(settings: Settings) -> None:
    narrow = settings.model_copy(update={"max_length": 191})
    assert read(narrow, images=["AA=="] * 2).images
    with pytest.raises(RequestTooLarge, match="3 images; 2 are allowed"):
        read(narrow, images=["AA=="] * 3)


@pytest.mark.parametrize("videos", [[["AA=="]], "x", {"a": 1}, 5, {}, "", False, 0])
def test_videos_are_refused_by_name(settings: Settings, videos: Any) -> None:
    assert places(settings, videos=videos) == [["body", "videos"]]
    assert read(settings, videos=[]).state == read(settings, videos=None).state == "x"


def test_without_the_extra_a_video_is_told_how_to_install_it(settings: Settings) -> None:
    with pytest.raises(ValidationFailed) as refused:
        read(settings, videos=[["AA==", "AA=="]])
    (issue,) = refused.value.detail
    assert issue["type"] == "videos_unsupported"
    assert "pip install -r requirements/video.txt" in issue["msg"] and "CLEF_VIDEOS=1" in issue["msg"]


# Our own fields


@pytest.mark.parametrize("name", ["x_independent", "x_truncate"])
def test_our_switches_are_booleans(settings: Settings, name: str) -> None:
    for value in (True, False, None):
        assert getattr(read(settings, **{name: value}), name) is value
    for value in (1, 0, "true", SECRET, [], {}):
        assert places(settings, **{name: value}) == [["body", name]]


# Nothing is repeated, nothing is too long, nothing is unforeseen

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.just(SECRET),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "criteria", "instructions", "url", "true", "a", "b", ""]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
QUESTIONS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["noul", "choice", "score"]) | VALUES,
        "instructions": VALUES,
        "criteria": VALUES,
    },
)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "model": st.just("clef") | VALUES,
        "state": VALUES,
        "questions": st.dictionaries(st.sampled_from(["a", "b", ""]), QUESTIONS | VALUES, max_size=3) | VALUES,
        "images": st.lists(VALUES, max_size=3) | VALUES,
        "videos": VALUES,
        "x_independent": VALUES,
        "x_truncate": VALUES,
    },
)


@hypothesis_settings(max_examples=500)
@given(BODIES)
def test_a_generated_body_is_taken_or_refused_without_a_word_of_it(body: dict[str, Any]) -> None:
    try:
        parse_request(json.dumps(body).encode(), Settings(release=RELEASE))
    except ServiceError as error:
        assert error.status in (400, 413, 422)
        assert SECRET not in error.to_json()
        assert len(error.to_json().encode()) <= MAX_JSON_BYTES


@pytest.mark.parametrize("kind", ["canary", "Noul", "bool", "", "noul "])
def test_an_unknown_question_type_is_told_the_known_ones(settings: Settings, kind: str) -> None:
    with pytest.raises(ValidationFailed) as caught:
        parse_request(json.dumps({"state": "", "questions": {"q": {"type": kind}}}).encode(), settings)
    (issue,) = caught.value.detail
    assert issue == {  # type: ignore[comparison-overlap]
        "loc": ["body", "questions", "q"],
        "msg": "Question type should be 'noul', 'choice' or 'score'",
        "type": "union_tag_invalid",
    }
