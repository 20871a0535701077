from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest

from preprocess.assets import inline_assets, resolve_assets
from preprocess.errors import RequestTooLarge, ValidationFailed
from preprocess.schema import parse_request
from preprocess.settings import Settings
from tests.golden_cases import RELEASE

SETTINGS = Settings(release=RELEASE)
RED, BLUE = "<image:00000000000000000000000000000001>", "<image:00000000000000000000000000000002>"
PNG = {"type": "image", "format": "png", "data_base64": "aGk="}


def body_of(assets: Any, state: Any = "", **fields: Any) -> dict[str, Any]:
    return {"state": state, "questions": {"q": {"type": "noul"}}, "assets": assets, **fields}


def refusal(body: dict[str, Any], parts: dict[str, bytes] | None = None) -> dict[str, Any]:
    """The one issue of the 422."""
    with pytest.raises(ValidationFailed) as caught:
        resolve_assets(body, parts or {}, SETTINGS)
    (issue,) = caught.value.detail
    assert isinstance(issue, dict)
    return issue


def test_placeholders_anywhere_in_the_texts_become_image_k() -> None:
    body = {
        "model": "clef",
        "state": {"photo": RED, "note": f"Left {RED}, right {BLUE}.", "list": [1, None, [BLUE]]},
        "questions": {
            "a": {"type": "noul", "instructions": f"Is {BLUE} sharp?", "criteria": {"true": [RED], "false": None}},
            "b": {"type": "choice", "instructions": {"look": [RED]}, "criteria": {"x": BLUE, "y": {"as": RED}}},
            "c": {"type": "score", "criteria": [RED, f"like {BLUE}"], "extra": RED},
        },
        "assets": {RED: PNG, BLUE: PNG | {"data_base64": "Ymx1ZQ=="}},
        "x_note": RED,
    }
    before = copy.deepcopy(body)
    assert inline_assets(body, SETTINGS) == {
        "model": "clef",
        "state": {"photo": "image 1", "note": "Left image 1, right image 2.", "list": [1, None, ["image 2"]]},
        "questions": {
            "a": {
                "type": "noul",
                "instructions": "Is image 2 sharp?",
                "criteria": {"true": ["image 1"], "false": None},
            },
            "b": {
                "type": "choice",
                "instructions": {"look": ["image 1"]},
                "criteria": {"x": "image 2", "y": {"as": "image 1"}},
            },
            "c": {"type": "score", "criteria": ["image 1", "like image 2"], "extra": RED},
        },
        "images": ["aGk=", "Ymx1ZQ=="],
        "x_note": RED,
    }
    assert body == before


def test_the_number_is_the_place_in_assets_not_in_the_text() -> None:
    assert inline_assets(body_of({RED: PNG, BLUE: PNG}, [BLUE, RED]), SETTINGS)["state"] == ["image 2", "image 1"]


@pytest.mark.parametrize(
    ("names", "state", "replaced"),
    [
        (["photo", "photo2"], "photo photo2 photo22", "image 1 image 2 image 22"),
        (["mage", "1"], "mage 1", "image 1 image 2"),
        (["image 2", "image 1"], "image 1, image 2", "image 2, image 1"),
        (["aa", "b"], "aaab", "image 1aimage 2"),
        (["é", "e"], "eé", "image 2image 1"),
    ],
)
def test_placeholders_are_opaque_and_replaced_once(names: list[str], state: str, replaced: str) -> None:
    assert inline_assets(body_of(dict.fromkeys(names, PNG), state), SETTINGS)["state"] == replaced


def test_without_assets_nothing_changes() -> None:
    for assets in ({}, {"assets": None}):
        body = {"state": RED, "questions": {}} | assets
        assert inline_assets(body, SETTINGS) is body


def test_a_placeholder_without_an_asset_is_text() -> None:
    assert inline_assets(body_of({RED: PNG}, f"{RED} {BLUE}"), SETTINGS)["state"] == f"image 1 {BLUE}"


def test_names_are_never_replaced() -> None:
    questions = {RED: {"type": "choice", "criteria": {RED: None, "b": RED}}}
    resolved = inline_assets({"state": {RED: 1}, "questions": questions, "assets": {RED: PNG}}, SETTINGS)
    assert resolved["state"] == {RED: 1}
    assert resolved["questions"] == {RED: {"type": "choice", "criteria": {RED: None, "b": "image 1"}}}


@pytest.mark.parametrize(
    "body",
    [
        body_of({RED: PNG}, "nothing"),
        body_of({RED: PNG}, {RED: "in a key"}),
        {"state": "", "questions": {RED: {"type": "choice", "criteria": {RED: None}}}, "assets": {RED: PNG}},
        {"state": "", "questions": [RED], "assets": {RED: PNG}},
        body_of({RED: PNG}, x_note=RED),
    ],
    ids=range(5),
)
def test_an_asset_that_nothing_refers_to_is_refused(body: dict[str, Any]) -> None:
    issue = refusal(body)
    assert issue["loc"] == ["body", "assets", RED]
    assert issue["type"] == "asset_unused"


@pytest.mark.parametrize(
    ("assets", "loc"),
    [
        ({}, []),
        ([], []),
        (5, []),
        ({"": PNG}, ["", "[key]"]),
        ({"a": "aGk="}, ["a"]),
        ({"a": None}, ["a"]),
        ({"a": PNG | {"type": "video"}}, ["a", "type"]),
        ({"a": PNG | {"format": "gif"}}, ["a", "format"]),
        ({"a": PNG | {"data_base64": 5}}, ["a", "data_base64"]),
        ({"a": {"type": "image"}}, ["a", "data_base64"]),
        ({"a": PNG | {"part": 5}}, ["a", "part"]),
        ({"a": PNG | {"part": "asset-0"}}, ["a", "part"]),
    ],
    ids=str,
)
def test_malformed_assets_are_refused_with_their_place(assets: Any, loc: list[str]) -> None:
    issue = refusal(body_of(assets, "a"))
    assert issue["loc"] == ["body", "assets", *loc]
    assert "dict" not in issue["msg"]
    assert "aGk=" not in str(issue)


def test_images_beside_assets_are_refused() -> None:
    assert refusal(body_of({RED: PNG}, RED, images=["aGk="]))["loc"] == ["body", "images"]
    assert inline_assets(body_of({RED: PNG}, RED, images=[]), SETTINGS)["images"] == ["aGk="]


def test_parts_become_images_in_the_order_of_assets() -> None:
    assets = {RED: {"part": "p1"}, BLUE: PNG, "third": {"type": "image", "part": "p0", "data_base64": "ignored"}}
    resolved, images = resolve_assets(body_of(assets, [RED, BLUE, "third"]), {"p0": b"zero", "p1": b"one"}, SETTINGS)
    assert resolved["state"] == ["image 1", "image 2", "image 3"]
    assert images == [b"one", "aGk=", b"zero"]


def test_each_part_belongs_to_exactly_one_asset() -> None:
    twice = {RED: {"part": "p"}, BLUE: {"part": "p"}}
    assert refusal(body_of(twice, [RED, BLUE]), {"p": b""})["loc"] == ["body", "assets", BLUE, "part"]
    assert refusal(body_of({RED: PNG}, RED), {"p": b""})["loc"] == ["body", "p"]
    assert refusal({"state": RED, "questions": {}}, {"p": b""})["loc"] == ["body", "p"]


def test_assets_are_counted_as_images_before_they_are_read() -> None:
    names = [f"<{k}>" for k in range(5)]
    assert len(inline_assets(body_of(dict.fromkeys(names[:4], PNG), names[:4]), SETTINGS)["images"]) == 4
    with pytest.raises(RequestTooLarge, match=r"5 images; 4 are allowed"):
        inline_assets(body_of(dict.fromkeys(names, 0), names), SETTINGS)


def test_placeholders_shorter_than_their_words_cannot_blow_a_text_up() -> None:
    settings = SETTINGS.model_copy(update={"max_body_bytes": 6_000})
    assert len(inline_assets(body_of({"a": PNG}, "a" * 1_000), settings)["state"]) == 7_000
    with pytest.raises(RequestTooLarge):
        inline_assets(body_of({"a": PNG}, ["a" * 600, "a" * 401]), settings)


def test_replacing_takes_time_by_the_size_of_the_text_alone() -> None:
    size = 4 * 1024 * 1024
    names = ["a" * 100_000 + end for end in "bcde"]
    began = time.process_time()
    with pytest.raises(ValidationFailed):
        inline_assets(body_of(dict.fromkeys(names, PNG), "a" * size), SETTINGS)
    assert len(inline_assets(body_of({"aaaaaaa": PNG}, "a" * size), SETTINGS)["state"]) == size
    assert time.process_time() - began < 1


def test_the_one_validator_reads_assets() -> None:
    request = parse_request(json.dumps(body_of({RED: PNG}, f"see {RED}")).encode(), SETTINGS)
    assert (request.state, request.images) == ("see image 1", ["aGk="])


@pytest.mark.parametrize("kind", ["box", "boxes", "BoundingBox"])
def test_a_box_question_is_told_that_there_are_no_boxes(kind: str) -> None:
    body = {"state": "", "questions": {"q": {"type": kind, "instructions": "The dog"}}}
    with pytest.raises(ValidationFailed) as caught:
        parse_request(json.dumps(body).encode(), SETTINGS)
    message = caught.value.detail[0]["msg"]  # type: ignore[index]
    assert message == "Question type should be 'noul', 'choice' or 'score': this model has no boxes"
