"""A stack whose settings are none of the defaults: each holds over HTTP and at the ensemble alike, and is told."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from preprocess.errors import ServiceError
from tests.golden_cases import CASES
from tests.invariants import assert_answer, assert_close
from tests.stack.running import Stack, ask, response_of, start_stack

SETTINGS = {
    "semantics": "independent",
    "confidence": "typesafe",
    "overflow": "truncate",
    "digits": 6,
}
LIMITS = {"max_questions": 100, "max_length": 512, "max_patches_bytes": 400_000}
GOOD = CASES["three-types"]["request"]
LONG = {"state": "lorem ipsum dolor " * 400, "questions": {"q": {"type": "noul", "instructions": "Is it Latin?"}}}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    environment = {f"CLEF_{name.upper()}": str(value) for name, value in (SETTINGS | LIMITS).items()}
    with start_stack(tmp_path_factory.mktemp("settings"), **environment) as running_stack:
        yield running_stack


@pytest.fixture(scope="module")
def http(stack: Stack) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=stack.frontend, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def grpc(stack: Stack) -> Iterator[triton_grpc.InferenceServerClient]:
    client = triton_grpc.InferenceServerClient(f"127.0.0.1:{stack.ports.grpc}")
    yield client
    client.close()


def both(http: httpx.Client, grpc: triton_grpc.InferenceServerClient, request: dict) -> dict:
    """The answer, the same over HTTP and from the ensemble but for the rounding of the model's own arithmetic."""
    answer = http.post("/v1/systemone", json=request)
    assert answer.status_code == 200, answer.text
    assert_answer(request, answer.json())
    assert_close(response_of(ask(grpc, request)), answer.json(), 2e-6)
    return answer.json()


def refused(http: httpx.Client, grpc: triton_grpc.InferenceServerClient, request: dict) -> ServiceError:
    with pytest.raises(InferenceServerException) as caught:
        ask(grpc, request)
    error = ServiceError.from_json(caught.value.message())
    answer = http.post("/v1/systemone", json=request)
    assert (answer.status_code, answer.json()) == (error.status, {"detail": error.detail})
    return error


def test_they_are_told(http, grpc):
    listing = http.get("/v1/models").json()
    assert {name: listing["x_settings"][name] for name in SETTINGS} == SETTINGS
    assert {name: listing["x_limits"][name] for name in LIMITS} == LIMITS
    told = json.loads(ask(grpc, GOOD).as_numpy("MODEL_INFO")[0, 0])
    assert told["settings"] == listing["x_settings"]
    assert told["limits"].items() <= listing["x_limits"].items()


def test_independent(http, grpc):
    whole = both(http, grpc, GOOD)
    for name, question in GOOD["questions"].items():
        alone = both(http, grpc, GOOD | {"questions": {f"{name}, renamed": question}})
        assert_close(alone["answers"][f"{name}, renamed"], whole["answers"][name], 2e-6)
    joint = http.post("/v1/systemone", json=GOOD | {"x_independent": False}).json()
    assert joint["answers"] != whole["answers"]
    assert joint["usage"]["input_tokens"] < whole["usage"]["input_tokens"]


def test_typesafe_confidence(http, grpc):
    for answer in both(http, grpc, GOOD)["answers"].values():
        if answer["type"] == "noul":
            continue
        values = list(answer["probabilities"].values())
        count = len(values)
        if answer["type"] == "choice":
            expected = (max(values) - 1 / count) / (1 - 1 / count)
        else:
            mode, middle = values.index(max(values)), (count - 1) / 2
            spread = sum(value * abs(level - mode) for level, value in enumerate(values))
            expected = max(0.0, 1 - spread / (sum(abs(level - middle) for level in range(count)) / count))
        assert answer["confidence"] == pytest.approx(expected, abs=1e-4)


def test_six_digits(http, grpc):
    numbers = [number for answer in both(http, grpc, GOOD)["answers"].values() for number in floats(answer)]
    assert all(number == round(number, 6) for number in numbers)
    assert any(number != round(number, 5) for number in numbers)


def floats(value: object) -> list[float]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in floats(item)]
    return [value] if isinstance(value, float) else []


def test_what_is_too_long_is_cut_and_said(http, grpc):
    response = both(http, grpc, LONG)
    assert response["usage"]["input_tokens"] == LIMITS["max_length"]
    sizes = response["x_state_truncated"]
    refusal = refused(http, grpc, LONG | {"x_truncate": False})
    assert refusal.status == 413
    assert f"needs {512 + sizes['dropped']} tokens; 512 are allowed" in refusal.detail["message"]
    alone = refused(http, grpc, {"state": "", "questions": {"q": {"type": "noul", "instructions": "lorem " * 600}}})
    assert alone.status == 413


def test_a_hundred_questions_and_not_one_more(http, grpc):
    questions = {f"q{index}": {"type": "noul", "instructions": "Late?"} for index in range(101)}
    refusal = refused(http, grpc, {"state": "x", "questions": questions})
    assert refusal.status == 422 and refusal.detail[0]["loc"] == ["body", "questions"]
    del questions["q100"]
    both(http, grpc, {"state": "x", "questions": questions})


def test_patches_over_what_they_may_have(http, grpc):
    one = CASES["image-native-grid"]["request"]
    assert both(http, grpc, one)["answers"]
    refusal = refused(http, grpc, one | {"images": one["images"] * 3})
    assert refusal.status == 413
    assert refusal.detail["message"].endswith(f"{LIMITS['max_patches_bytes']} are allowed.")
