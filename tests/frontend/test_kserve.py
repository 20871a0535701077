from __future__ import annotations

import struct

import numpy as np
import pytest
import tritonclient.grpc as tritonclient
from tritonclient.grpc import service_pb2

from frontend import kserve
from frontend.decision import Decision
from frontend.model_info import ModelInfo
from preprocess.errors import (
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    Overloaded,
    RequestTooLarge,
    ServiceError,
    ValidationFailed,
)
from tests.frontend.kserve_server import element, elements


def test_a_request_is_what_the_official_client_would_send() -> None:
    body, images = '{"state":"é\\u0000\x00"}'.encode(), [b"\x89PNG\x00", b"", b"\xff\xd8"]
    inputs = []
    for name, values in (("REQUEST", [body]), ("IMAGES", images)):
        tensor = tritonclient.InferInput(name, [1, len(values)], "BYTES")
        tensor.set_data_from_numpy(np.array([values], dtype=np.object_))
        inputs.append(tensor)
    message = kserve.infer_request(body, images, "id", {})
    assert message.model_name == "clef" and message.id == "id"
    assert list(message.raw_input_contents) == [tensor._get_content() for tensor in inputs]
    assert list(message.inputs) == [tensor._get_tensor() for tensor in inputs]
    assert elements(message.raw_input_contents[1]) == images


def test_without_images_there_is_no_such_input() -> None:
    message = kserve.infer_request(b"{}", (), "id", {})
    assert [tensor.name for tensor in message.inputs] == ["REQUEST"]


def test_parameters_keep_their_types() -> None:
    message = kserve.infer_request(b"{}", (), "id", {"b": True, "i": 2**40, "f": 0.5, "s": "x"})
    sent = {name: value.WhichOneof("parameter_choice") for name, value in message.parameters.items()}
    assert sent == {"b": "bool_param", "i": "int64_param", "f": "double_param", "s": "string_param"}
    assert message.parameters["i"].int64_param == 2**40


def test_a_request_with_a_cache_key_is_one_of_the_other_ensemble() -> None:
    message = kserve.infer_request(b"{}", [b"i"], "id", {}, b"\x00" * 32)
    assert message.model_name == "clef_cached"
    assert [tensor.name for tensor in message.inputs] == ["REQUEST", "IMAGES", "CACHE_KEY"]
    assert elements(message.raw_input_contents[2]) == [b"\x00" * 32] and list(message.inputs[2].shape) == [1, 1]
    asked = {output.name for output in message.outputs}
    assert asked == {*OUTPUTS, "IMAGE_COUNT", "COMPUTED_FOR"} - {"IMAGE_GRID"}, "none that may be empty"


def test_two_requests_share_nothing() -> None:
    first = kserve.infer_request(b"1", [b"i"], "a", {"p": 1})
    second = kserve.infer_request(b"2", (), "b", {})
    assert len(first.inputs) == 2 and len(second.inputs) == 1
    assert not second.parameters and list(second.raw_input_contents) == [element(b"2")]


OUTPUTS = {
    "RESPONSE": element(b'{"model":"m"}'),
    "MODEL_INFO": element(b"{}"),
    "BATCH_SIZE": struct.pack("<i", 7),
    "IMAGE_GRID": struct.pack("<6i", 1, 16, 16, 1, 16, 32),
    "QUEUE_MS": struct.pack("<f", 0.5),
    "PREPROCESS_MS": struct.pack("<f", 1.5),
    "COMPUTE_MS": struct.pack("<f", 2.5),
    "POSTPROCESS_MS": struct.pack("<f", 3.5),
}


def response_of(outputs: dict[str, bytes]) -> service_pb2.ModelInferResponse:
    message = service_pb2.ModelInferResponse()
    for name, content in outputs.items():
        message.outputs.add(name=name, shape=[1, 1])
        message.raw_output_contents.append(content)
    return message


def model(raw: bytes) -> ModelInfo:
    return ModelInfo(raw, "m", (), "", "", "", 0, {}, {})


def test_reads_outputs_in_any_order() -> None:
    for outputs in (OUTPUTS, dict(reversed(OUTPUTS.items()))):
        assert kserve.read_response(response_of(outputs), model) == Decision(
            response=b'{"model":"m"}',
            model=model(b"{}"),
            queue_ms=0.5,
            preprocess_ms=1.5,
            compute_ms=2.5,
            postprocess_ms=3.5,
            batch_size=7,
            images=2,
        )


CACHED_OUTPUTS = {
    **{name: content for name, content in OUTPUTS.items() if name != "IMAGE_GRID"},
    "IMAGE_COUNT": struct.pack("<i", 2),
    "COMPUTED_FOR": element(b"token"),
}


def test_a_kept_answer_has_no_times() -> None:
    computed = kserve.read_response(response_of(CACHED_OUTPUTS), model, "token")
    assert computed == kserve.read_response(response_of(OUTPUTS), model) and not computed.cached
    kept = kserve.read_response(response_of(CACHED_OUTPUTS), model, "another")
    assert kept.cached and set(kept.times_ms.values()) == {0.0} and kept.batch_size == 0
    assert (kept.response, kept.model, kept.images) == (computed.response, computed.model, 2)


@pytest.mark.parametrize("name", ["IMAGE_COUNT", "COMPUTED_FOR"])
def test_an_answer_that_does_not_say_whose_it_is_is_refused(name: str) -> None:
    without = {key: value for key, value in CACHED_OUTPUTS.items() if key != name}
    for outputs in (without, {**without, name: b"\x01"}):
        with pytest.raises(kserve.BadResponse, match="the ensemble gave"):
            kserve.read_response(response_of(outputs), model, "token")


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_missing_or_malformed_output_is_refused(name: str) -> None:
    without = {key: value for key, value in OUTPUTS.items() if key != name}
    # Without images there are no rows.
    empty = () if name == "IMAGE_GRID" else (b"",)
    for content in (None, *empty, b"\x01", OUTPUTS[name] + b"more"):
        outputs = without if content is None else {**without, name: content}
        with pytest.raises(kserve.BadResponse, match="the ensemble gave"):
            kserve.read_response(response_of(outputs), model)


def test_the_last_step_is_asked_about_what_the_first_one_answered() -> None:
    outputs = {"PLAN": element(b"plan"), "QUESTIONS": struct.pack("<8i", 0, 9, 0, 2, 9, 20, 1, 3)}
    message = kserve.postprocess_request(response_of(outputs), "id")
    assert (message.model_name, message.id) == ("clef_postprocess", "id")
    shapes = {tensor.name: (tensor.datatype, list(tensor.shape)) for tensor in message.inputs}
    assert shapes == {"PLAN": ("BYTES", [1, 1]), "LOGITS": ("FP32", [1, 5])}
    assert list(message.raw_input_contents) == [element(b"plan"), bytes(20)]


@pytest.mark.parametrize("outputs", [{}, {"PLAN": b""}, {"PLAN": b"", "QUESTIONS": b"\x01"}])
def test_a_first_answer_without_its_outputs_is_refused(outputs: dict[str, bytes]) -> None:
    with pytest.raises(kserve.BadResponse, match="the ensemble gave"):
        kserve.postprocess_request(response_of(outputs), "id")


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("The body is not JSON."),
        InvalidRequest("Unknown model.", error_type="api_usage_error"),
        RequestTooLarge("too large"),
        ValidationFailed.at(["body", "state"], "Field required", "missing"),
        Overloaded("full"),
        DeadlineExceeded("late"),
    ],
    ids=lambda error: f"{type(error).__name__} {error}",
)
def test_an_error_of_a_step_arrives_whatever_its_grpc_code(error: ServiceError) -> None:
    for code in ("INVALID_ARGUMENT", "UNAVAILABLE", "INTERNAL", "UNKNOWN"):
        told = kserve.service_error(code, f"in ensemble 'clef', {error.to_json()}")
        assert type(told) is type(error)
        assert told.detail == error.detail


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        ("UNAVAILABLE", "failed to connect to all addresses; {grpc_status:14}", Overloaded),
        ("UNAVAILABLE", "Exceeds maximum queue size", Overloaded),
        ("CANCELLED", "", Overloaded),
        ("INTERNAL", "Failed to increase the shared memory pool size for key 'canary'", Overloaded),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", DeadlineExceeded),
        ("INTERNAL", "Failed to process the request(s): KeyError: 'canary'", InternalError),
        ("INVALID_ARGUMENT", "unexpected shape for input 'canary'", InternalError),
        ("NOT_FOUND", "Request for unknown model: 'clef'", InternalError),
        ("RESOURCE_EXHAUSTED", "canary", InternalError),
        ("INTERNAL", "in ensemble 'clef', {\"status\":", InternalError),
        ("INTERNAL", 'in ensemble \'clef\', {"status":"canary"}', InternalError),
    ],
)
def test_every_other_text_stays_inside(code: str, text: str, kind: type[ServiceError]) -> None:
    told = kserve.service_error(code, text)
    assert type(told) is kind
    assert "canary" not in told.to_json() and "grpc" not in told.to_json()
