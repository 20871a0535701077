"""The whole step: a body, images and parameters in; tensors, plan and model info out."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from preprocess.errors import RequestTooLarge, ServiceError, ValidationFailed
from preprocess.image_references import decode_reference
from preprocess.images import ProcessorError
from preprocess.plan import Plan, Truncated
from preprocess.preprocessor import Preprocessor
from preprocess.release import ReleaseError
from preprocess.settings import Settings
from preprocess.tokenizer import TokenizerError
from tests.golden_cases import CASES, REFERENCE_MODE, RELEASE, TRUNCATED
from tests.preprocess.pictures import data_url, file_of, noise

Tensors = dict[str, np.ndarray[Any, Any]]

SHAPES = {
    "INPUT_IDS": (np.int32, (None,)),
    "RECORDS": (np.int32, (None, 3)),
    "QUESTIONS": (np.int32, (None, 4)),
    "OPTION_SPANS": (np.int32, (None, 2)),
    "PATCHES": (np.uint8, (None, 768)),
    "IMAGE_GRID": (np.int32, (None, 3)),
    "PLAN": (np.object_, (1,)),
    "MODEL_INFO": (np.object_, (1,)),
}
NOUL = {"q": {"type": "noul", "instructions": "Is a service down?"}}


@pytest.fixture(scope="module")
def step() -> Preprocessor:
    return Preprocessor(Settings(release=RELEASE))


def run(step: Preprocessor, body: dict[str, Any], images: Any = None, **parameters: Any) -> Tensors:
    tensors = step(json.dumps(body).encode(), images, parameters)
    assert tensors.keys() == SHAPES.keys()
    for name, (dtype, shape) in SHAPES.items():
        tensor = tensors[name]
        assert tensor.dtype == dtype and tensor.ndim == len(shape), name
        assert all(wanted in (None, size) for wanted, size in zip(shape, tensor.shape, strict=True)), name
        assert tensor.flags.c_contiguous, name
    assert tensors["MODEL_INFO"][0] == step.info()
    return tensors


def plan_of(tensors: Tensors) -> Plan:
    return Plan.from_json(tensors["PLAN"][0])


@pytest.mark.parametrize("name", CASES)
def test_golden(step: Preprocessor, name: str) -> None:
    body, reference = CASES[name]["request"], CASES[name]["reference"]
    parameters = {"special_tokens": "reference"} if name == REFERENCE_MODE else {}
    tensors = run(step, body, **parameters)
    questions = reference["questions"]
    assert tensors["INPUT_IDS"].tolist() == reference["input_ids"]
    [[length, asked, schema_start]] = tensors["RECORDS"].tolist()
    assert (length, asked) == (len(reference["input_ids"]), len(questions)) and schema_start < questions[0]["span"][0]
    assert tensors["QUESTIONS"].tolist() == [
        [*question["span"], question["type"], len(question["option_spans"])] for question in questions
    ]
    assert tensors["OPTION_SPANS"].tolist() == [span for question in questions for span in question["option_spans"]]
    assert tensors["IMAGE_GRID"].tolist() == reference.get("image_grid_thw", [])
    if "pixel_values_sha256" in reference and name != "image-resized":
        frames = np.repeat(tensors["PATCHES"].reshape(-1, 3, 1, 256), 2, axis=2)
        assert hashlib.sha256(frames.tobytes()).hexdigest() == reference["pixel_values_sha256"]
    plan = plan_of(tensors)
    assert (plan.model, plan.tokens) == (body["model"], reference["response"]["usage"]["input_tokens"])
    assert (plan.truncated, plan.confidence, plan.digits) == (None, "top", 4)
    for planned, (name, question) in zip(plan.questions, body["questions"].items(), strict=True):
        assert (planned.id, planned.type) == (name, question["type"])
        if planned.type == "choice":
            assert [planned.options[index] for index in planned.order] == list(question["criteria"])
        assert planned.legend == (tuple(question["criteria"]) if planned.type == "score" else None)


def test_golden_truncated(step: Preprocessor) -> None:
    body = TRUNCATED["request"]
    with pytest.raises(RequestTooLarge):
        run(step, body, max_length=256)
    for tensors in (
        run(step, body, max_length=256, overflow="truncate"),
        run(step, body | {"x_truncate": True}, max_length=256),
    ):
        assert tensors["INPUT_IDS"].tolist() == TRUNCATED["input_ids"]
        truncated = plan_of(tensors).truncated
        assert isinstance(truncated, Truncated)
        assert truncated.kept + truncated.dropped + 256 - truncated.kept == plan_of(run(step, body)).tokens
    with pytest.raises(RequestTooLarge):
        run(step, body | {"x_truncate": False}, max_length=256, overflow="truncate")


def test_the_caller_and_the_parameters_choose_the_semantics(step: Preprocessor) -> None:
    body = CASES["three-types"]["request"]

    def records(body: dict[str, Any], **parameters: Any) -> list[int]:
        tensors = run(step, body, **parameters)
        assert plan_of(tensors).tokens == tensors["RECORDS"][:, 0].sum()
        return list(tensors["RECORDS"][:, 1].tolist())

    assert records(body) == [3]
    assert records(body, semantics="independent") == [1, 1, 1]
    assert records(body | {"x_independent": True}) == [1, 1, 1]
    assert records(body | {"x_independent": None}, semantics="independent") == [1, 1, 1]
    assert records(body | {"x_independent": False}, semantics="independent") == [3]


def test_answers_settings_travel_in_the_plan(step: Preprocessor) -> None:
    plan = plan_of(run(step, CASES["noul-only"]["request"], confidence="typesafe", digits="7"))
    assert (plan.confidence, plan.digits) == ("typesafe", 7)


def test_every_record_shows_the_requests_images_once(step: Preprocessor) -> None:
    image = data_url(file_of(noise(256, 256)))
    body = {"state": "x", "questions": CASES["three-types"]["request"]["questions"], "images": [image]}
    tensors = run(step, body, semantics="independent")
    assert tensors["IMAGE_GRID"].tolist() == [[1, 16, 16]]
    assert len(tensors["PATCHES"]) == 256
    pad = 2_005
    start = 0
    for length in tensors["RECORDS"][:, 0].tolist():
        assert (tensors["INPUT_IDS"][start : start + length] == pad).sum() == 64
        start += length


def test_images_as_a_tensor_are_the_same_as_in_the_body(step: Preprocessor) -> None:
    body = CASES["two-images"]["request"]
    files = [decode_reference(image, 0, step.settings) for image in body["images"]]
    without = {name: value for name, value in body.items() if name != "images"}
    for empty in ({}, {"images": []}, {"images": None}):
        apart = run(step, without | empty, files)
        inline = run(step, body)
        for name in SHAPES:
            assert (apart[name] == inline[name]).all()
    for nothing in (None, []):
        assert len(run(step, body, nothing)["IMAGE_GRID"]) == 2


def test_images_in_two_places_are_refused(step: Preprocessor) -> None:
    body = CASES["two-images"]["request"]
    with pytest.raises(ValidationFailed) as caught:
        run(step, body, [b"x"])
    assert caught.value.detail[0]["loc"] == ["body", "images"]


def test_tensor_images_have_the_same_limits(step: Preprocessor) -> None:
    body = {"state": "x", "questions": NOUL}
    data = file_of(noise(32, 32))
    assert len(run(step, body, [data] * 4)["IMAGE_GRID"]) == 4
    with pytest.raises(RequestTooLarge, match="5 images"):
        run(step, body, [data] * 5)
    with pytest.raises(RequestTooLarge, match="2 images; 1 are allowed"):
        run(step, body, [data] * 2, max_images=1)
    with pytest.raises(RequestTooLarge, match="4194305 bytes"):
        run(step, body, [bytes((4 << 20) + 1)])
    with pytest.raises(RequestTooLarge, match="8388609 bytes together"):
        run(step, body, [bytes(4 << 20), bytes(4 << 20), b"x"])
    with pytest.raises(ValidationFailed) as caught:
        run(step, body, [data, b"x"])
    assert caught.value.detail[0]["loc"] == ["body", "images", 1]


def test_images_that_leave_no_room_are_refused_before_they_are_decoded(
    step: Preprocessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("preprocess.images.read_rgb", None)
    with pytest.raises(RequestTooLarge, match="tokens without its state"):
        run(step, {"state": "x", "questions": NOUL}, [file_of(noise(256, 256))], max_length=150, overflow="truncate")


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"max_questions": 2}, ValidationFailed),
        ({"max_length": 100}, RequestTooLarge),
        ({"max_body_bytes": 100}, RequestTooLarge),
        ({"digits": "x"}, ValidationFailed),
    ],
)
def test_parameters_lower_limits(step: Preprocessor, parameters: dict[str, Any], error: type[ServiceError]) -> None:
    with pytest.raises(error):
        run(step, CASES["three-types"]["request"], **parameters)


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"secret"])
def test_what_is_no_request_is_refused(step: Preprocessor, body: bytes) -> None:
    with pytest.raises(ServiceError) as caught:
        step(body, None, {})
    assert caught.value.status in (400, 422)
    assert "secret" not in caught.value.to_json()


def test_a_failed_request_leaves_nothing_behind(step: Preprocessor) -> None:
    body = CASES["three-types"]["request"]
    before = run(step, body)
    for parameters in ({"max_length": 100}, {"special_tokens": "x"}, {"max_questions": 1}):
        with pytest.raises(ServiceError):
            run(step, body, **parameters)
    after = run(step, body)
    assert all((before[name] == after[name]).all() for name in SHAPES)


# Model info


def test_model_info() -> None:
    settings = Settings(
        release=RELEASE, model_name="mine", model_aliases=("a", "mine", "b"), digits=6, max_length=128, max_images=9
    )
    info = json.loads(Preprocessor(settings).info())
    described = ["description", "release_date", "revision", "size_bytes"]
    assert list(info) == ["name", "aliases", *described, "settings", "limits"]
    assert (info["name"], info["aliases"]) == ("mine", ["a", "b"])
    assert "random weights, its answers mean nothing" in info["description"]
    assert len(info["revision"]) == 64 and len(info["release_date"]) == 10
    assert info["settings"] == {
        "semantics": "joint",
        "confidence": "top",
        "overflow": "reject",
        "digits": 6,
        "special_tokens": "literal",
        "image_mode": "faithful",
        "videos": False,
        "response_cache_bytes": 0,
    }
    assert (info["limits"]["max_length"], info["limits"]["max_images"]) == (128, 2)
    assert info["limits"]["max_pixels_together"] == 128 * 1_024
    assert info["limits"]["max_tokens_cut"] == 2_000_000


def test_videos_without_the_extra_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)  # what Python makes an ImportError of
    with pytest.raises(ProcessorError, match=r"CLEF_VIDEOS: pip install -r requirements/video.txt"):
        Preprocessor(Settings(release=RELEASE, videos=True))


def copy_of_the_release(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RELEASE, tmp_path / "release"))


def test_a_release_without_the_note_is_not_called_random(tmp_path: Path) -> None:
    release = copy_of_the_release(tmp_path)
    (release / "RANDOM_WEIGHTS.txt").unlink()
    assert "random" not in json.loads(Preprocessor(Settings(release=release)).info())["description"]


@pytest.mark.parametrize(
    ("missing", "error"),
    [
        ("model.safetensors", ReleaseError),
        ("tokenizer.json", TokenizerError),
        ("processor_config.json", ProcessorError),
    ],
)
def test_an_incomplete_release_does_not_start(tmp_path: Path, missing: str, error: type[Exception]) -> None:
    release = copy_of_the_release(tmp_path)
    (release / missing).unlink()
    with pytest.raises(error, match=missing.split(".")[0]):
        Preprocessor(Settings(release=release))
