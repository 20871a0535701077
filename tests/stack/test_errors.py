"""Bad input through the whole stack: refused alike over HTTP and at the ensemble, with nothing of the inside."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from preprocess.errors import ServiceError
from tests.golden_cases import CASES
from tests.stack.running import ask

GOOD = CASES["three-types"]["request"]
QUESTIONS = GOOD["questions"]
OPTIONS_OF_GOOD = sum(map(len, CASES["three-types"]["reference"]["logits"]))
SECRET = "swordfish"


def body(**changes) -> bytes:
    return json.dumps(GOOD | changes).encode()


BAD = {
    "not JSON": (b'{"state": swordfish', 422),
    "not an object": (b'["swordfish"]', 400),
    "not UTF-8": (b'{"state": "\xff"}', 400),
    "NaN": (b'{"state": NaN, "questions": {}}', 400),
    "huge integer": (b'{"state": ' + b"1" * 5000 + b', "questions": {"q": {"type": "noul"}}}', 400),
    "unknown model": (body(model=SECRET), 400),
    "no questions": (body(questions={}), 422),
    "no state": (json.dumps({"questions": QUESTIONS}).encode(), 422),
    "unknown type": (body(questions={"q": {"type": SECRET}}), 422),
    "no options": (body(questions={"q": {"type": "choice", "criteria": {}}}), 422),
    "a level too many": (body(questions={"q": {"type": "score", "criteria": [SECRET] * 11}}), 422),
    "a duplicate key": (b'{"state": "swordfish", "state": 1, "questions": {"q": {"type": "noul"}}}', 422),
    "too deep": (b'{"state": ' + b"[" * 65 + b"]" * 65 + b', "questions": {"q": {"type": "noul"}}}', 422),
    "an URL": (body(images=[f"http://127.0.0.1/{SECRET}.png"]), 422),
    "no image": (body(images=["data:image/png;base64,c3dvcmRmaXNo"]), 422),
    "too many tokens": (body(state=f"{SECRET} " * 20_000), 413),
    "too many images": (body(images=CASES["image-native-grid"]["request"]["images"] * 5), 413),
}


def refusal(client: triton_grpc.InferenceServerClient, request: bytes, **parameters) -> ServiceError:
    with pytest.raises(InferenceServerException) as caught:
        ask(client, request, **parameters)
    return ServiceError.from_json(caught.value.message())


@pytest.mark.parametrize("name", BAD)
def test_http_and_the_ensemble_refuse_alike(http, grpc, name):
    request, status = BAD[name]
    answer = http.post("/v1/systemone", content=request)
    assert answer.status_code == status, answer.text
    error = refusal(grpc, request)
    assert error.status == status
    assert answer.json() == {"detail": error.detail}
    assert len(answer.content) < 4096
    assert SECRET not in answer.text


def test_a_good_request_is_answered_after_all_of_them(http):
    assert http.post("/v1/systemone", json=GOOD).json() == CASES["three-types"]["reference"]["response"]


def test_a_deadline_that_has_passed(grpc):
    assert refusal(grpc, body(), deadline_ms=1).status == 504


@pytest.mark.parametrize("value", [SECRET, True, 1.5])
@pytest.mark.parametrize("name", ["semantics", "digits", "max_questions", "deadline_ms"])
def test_a_parameter_that_does_not_take_such_a_value(grpc, name, value):
    error = refusal(grpc, body(), **{name: value})
    assert error.status == 422
    assert error.detail[0]["loc"] == ["parameters", name]
    assert SECRET not in error.to_json()


def test_a_cancel_parameter_on_a_request_is_ignored(grpc):
    assert ask(grpc, body(), cancel="somebody's").as_numpy("RESPONSE").shape == (1, 1)


@pytest.mark.parametrize("plan", [b"swordfish", b"null", b"{}", b"\xff", b"[" * 100_000])
def test_a_plan_that_is_none_is_refused_at_the_postprocess_step(grpc, plan):
    text = triton_grpc.InferInput("PLAN", [1, 1], "BYTES")
    text.set_data_from_numpy(np.array([[plan]], dtype=np.object_))
    logits = triton_grpc.InferInput("LOGITS", [1, 1], "FP32")
    logits.set_data_from_numpy(np.zeros([1, 1], dtype=np.float32))
    with pytest.raises(InferenceServerException) as caught:
        grpc.infer("clef_postprocess", [text, logits])
    assert ServiceError.from_json(caught.value.message()).status == 400


def test_logits_of_another_request_are_refused_at_the_postprocess_step(grpc):
    request = triton_grpc.InferInput("REQUEST", [1, 1], "BYTES")
    request.set_data_from_numpy(np.array([[body()]], dtype=np.object_))
    plan = triton_grpc.InferInput("PLAN", [1, 1], "BYTES")
    plan.set_data_from_numpy(grpc.infer("clef_preprocess", [request]).as_numpy("PLAN"))
    logits = triton_grpc.InferInput("LOGITS", [1, 5], "FP32")
    logits.set_data_from_numpy(np.zeros([1, 5], dtype=np.float32))
    with pytest.raises(InferenceServerException) as caught:
        grpc.infer("clef_postprocess", [plan, logits])
    error = ServiceError.from_json(caught.value.message())
    assert error.status == 400
    assert error.detail["message"] == f"LOGITS has 5 logits; the PLAN's questions have {OPTIONS_OF_GOOD} options."


def at_the_model_step(grpc, shapes: dict[str, list[int]], **values) -> ServiceError:
    """What `clef_model` says to tensors of these shapes, all ones but for `values`, and no image."""
    inputs = []
    for name, shape in shapes.items():
        tensor = triton_grpc.InferInput(name, [1, *shape], "INT32")
        tensor.set_data_from_numpy(np.array(values.get(name, np.ones(shape)), dtype=np.int32)[None])
        inputs.append(tensor)
    patches = triton_grpc.InferInput("PATCHES", [1, 0, 768], "UINT8")
    patches.set_data_from_numpy(np.zeros([1, 0, 768], dtype=np.uint8))
    with pytest.raises(InferenceServerException) as caught:
        grpc.infer("clef_model", [*inputs, patches])
    return ServiceError.from_json(caught.value.message())


SHAPES = {
    "INPUT_IDS": [5],
    "RECORDS": [1, 3],
    "QUESTIONS": [1, 4],
    "OPTION_SPANS": [1, 2],
    "IMAGE_GRID": [0, 3],
}


def test_tensors_that_contradict_each_other_fail_alone_at_the_model_step(grpc):
    """`clef_model` can be called by itself; what does not add up is refused before it is computed."""
    assert at_the_model_step(grpc, SHAPES).status == 400


def test_a_record_that_is_too_long_is_refused_at_the_model_step_too(grpc):
    values = {"RECORDS": [[16_385, 1, 1]], "QUESTIONS": [[0, 1, 1, 1]], "OPTION_SPANS": [[1, 2]]}
    error = at_the_model_step(grpc, SHAPES | {"INPUT_IDS": [16_385]}, **values)
    assert error.status == 400
    assert error.detail["message"] == "a record has 16385 tokens; 16384 are allowed"


def test_ids_and_parameters_that_are_no_text_fail_nobody_at_the_model_step(stack, grpc):
    """KServe over HTTP takes any bytes. A step that raised for an id failed all that came with it, and Triton itself
    ended where another of those was answered then.
    """
    request = triton_grpc.InferInput("REQUEST", [1, 1], "BYTES")
    request.set_data_from_numpy(np.array([[body()]], dtype=np.object_))
    made = grpc.infer("clef_preprocess", [request])
    inputs = [
        {"name": name, "shape": array.shape, "datatype": datatype, "data": array.flatten().tolist()}
        for name, datatype in [*((name, "INT32") for name in SHAPES), ("PATCHES", "UINT8")]
        for array in [made.as_numpy(name)]
    ]
    good = json.dumps({"id": "x", "inputs": inputs}).encode()
    bad_id = good.replace(b'"id": "x"', b'"id": "\xff"')
    bad_parameters = good.replace(b'"id": "x"', b'"parameters": {"a": "\xff"}')
    url = f"http://127.0.0.1:{stack.ports.http}/v2/models/clef_model/infer"
    before = stack.stubs()
    with ThreadPoolExecutor(16) as threads:
        answers = [threads.submit(httpx.post, url, content=each) for each in (good, bad_id, bad_parameters) * 30]
    statuses = [answer.result().status_code for answer in answers]
    assert statuses == [200, 200, 400] * 30
    assert stack.stubs() == before
