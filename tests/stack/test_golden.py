"""The publisher's answers through the whole stack: over HTTP, over gRPC, and over KServe's HTTP protocol."""

from __future__ import annotations

import base64
import json

import httpx
import numpy as np
import pytest

from tests.golden_cases import CASES, REFERENCE_MODE, tolerance
from tests.invariants import assert_answer, assert_close
from tests.stack.running import ask, response_of

LITERAL = [name for name in CASES if name != REFERENCE_MODE]


def assert_golden(name, response):
    assert_answer(CASES[name]["request"], response)
    assert_close(response, CASES[name]["reference"]["response"], tolerance(name))


@pytest.mark.parametrize("name", LITERAL)
def test_over_http(http, name):
    answer = http.post("/v1/systemone", json=CASES[name]["request"])
    assert answer.status_code == 200, answer.text
    assert_golden(name, answer.json())


@pytest.mark.parametrize("name", LITERAL)
def test_over_grpc(grpc, name):
    result = ask(grpc, CASES[name]["request"])
    assert_golden(name, response_of(result))
    logits = np.concatenate([np.array(question) for question in CASES[name]["reference"]["logits"]])
    probabilities = result.as_numpy("PROBABILITIES")[0]
    assert probabilities.shape == logits.shape


def test_special_tokens_inside_text_are_structure_in_reference_mode_only(grpc):
    request, expected = CASES[REFERENCE_MODE]["request"], CASES[REFERENCE_MODE]["reference"]["response"]
    assert_golden(REFERENCE_MODE, response_of(ask(grpc, request, special_tokens="reference")))
    literal = response_of(ask(grpc, request))
    assert literal["usage"]["input_tokens"] > expected["usage"]["input_tokens"]


def test_images_may_come_as_files_in_a_tensor_of_their_own(grpc):
    case = CASES["two-images"]
    files = [base64.b64decode(image.partition(",")[2]) for image in case["request"]["images"]]
    request = {key: value for key, value in case["request"].items() if key != "images"}
    assert_golden("two-images", response_of(ask(grpc, request, files)))


def test_kserve_over_http(stack):
    request = CASES["three-types"]["request"]
    body = {
        "inputs": [{"name": "REQUEST", "shape": [1, 1], "datatype": "BYTES", "data": [json.dumps(request)]}],
        "outputs": [{"name": "RESPONSE"}],
    }
    answer = httpx.post(f"http://127.0.0.1:{stack.ports.http}/v2/models/clef/infer", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    [output] = answer.json()["outputs"]
    assert_golden("three-types", json.loads(output["data"][0]))
