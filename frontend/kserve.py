"""KServe v2 messages of the ensembles `clef` and `clef_cached`, built and read by hand.

The protobuf messages of `tritonclient` are used without its `InferInput` and `InferResult`: a body goes into
`raw_input_contents` as it came, with no numpy array of Python objects in between, which
measured a fifth less CPU a call.
"""

import contextlib
import functools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

from tritonclient.grpc import service_pb2

from frontend.decision import Decision
from frontend.model_info import ModelInfo
from preprocess.errors import DeadlineExceeded, InternalError, Overloaded, ServiceError

ENSEMBLE = "clef"
CACHED = "clef_cached"
PREPROCESS = "clef_preprocess"
MODEL = "clef_model"
POSTPROCESS = "clef_postprocess"
Parameter = str | int | float | bool
_TIMES = ("QUEUE_MS", "PREPROCESS_MS", "COMPUTE_MS", "POSTPROCESS_MS")
_SHARED_OUTPUTS = ("RESPONSE", "MODEL_INFO", "BATCH_SIZE", *_TIMES)
_OUTPUTS = {
    ENSEMBLE: (*_SHARED_OUTPUTS, "IMAGE_GRID"),
    # No empty one, such as the grid of no images: Triton keeps no response that has one.
    CACHED: (*_SHARED_OUTPUTS, "IMAGE_COUNT", "COMPUTED_FOR"),
}
# Of the model step: the shape of one row.
_MODEL_INPUTS: tuple[tuple[str, str, list[int]], ...] = (
    ("INPUT_IDS", "INT32", []),
    ("RECORDS", "INT32", [3]),
    ("QUESTIONS", "INT32", [4]),
    ("OPTION_SPANS", "INT32", [2]),
    ("PATCHES", "UINT8", [768]),
    ("IMAGE_GRID", "INT32", [3]),
)
# Triton's own words where a tensor finds no room in the memory that its steps share.
_NO_ROOM = "Failed to increase the shared memory pool"
_LENGTH = struct.Struct("<I")
_FLOAT = struct.Struct("<f")
_INT = struct.Struct("<i")
_QUESTION = struct.Struct("<4i")


class BadResponse(Exception):
    """The ensemble answered with something that is not its contract. An HTTP 500."""


def infer_request(
    body: bytes,
    images: Sequence[bytes],
    request_id: str,
    parameters: Mapping[str, Parameter],
    cache_key: bytes | None = None,
) -> service_pb2.ModelInferRequest:
    """One call of the ensemble: REQUEST BYTES [1, 1] and, where there are images, IMAGES BYTES [1, n].

    With a CACHE_KEY BYTES [1, 1] it is one of `clef_cached`.
    """
    message = service_pb2.ModelInferRequest()
    message.CopyFrom(_template(ENSEMBLE if cache_key is None else CACHED))
    message.id = request_id
    for name, value in parameters.items():
        _set_parameter(message.parameters[name], value)
    message.raw_input_contents.append(_bytes_element(body))
    if images:
        message.inputs.add(name="IMAGES", datatype="BYTES", shape=[1, len(images)])
        message.raw_input_contents.append(b"".join(map(_bytes_element, images)))
    if cache_key is not None:
        _add_input(message, "CACHE_KEY", "BYTES", 1, _bytes_element(cache_key))
    return message


def cancel_request(token: str) -> service_pb2.ModelInferRequest:
    """A call of the model step that gives up the request whose parameter `cancel_token` this is.

    The model step reads no tensor of it, but Triton wants every input there, so all are empty.
    """
    message = service_pb2.ModelInferRequest()
    message.CopyFrom(_cancel_template())
    _set_parameter(message.parameters["cancel"], token)
    return message


def requests_held(cancelled: service_pb2.ModelInferResponse) -> int:
    """How many requests are with the model step, heartbeats aside, by its answer to a `cancel_request`.

    Raises BadResponse.
    """
    with _named(cancelled) as outputs:
        held: int = _INT.unpack(outputs["BATCH_SIZE"])[0]
        return held


def preprocess_request(body: bytes, request_id: str) -> service_pb2.ModelInferRequest:
    """A call of the preprocess step alone, for what the postprocess step needs of a request without images."""
    message = service_pb2.ModelInferRequest(model_name=PREPROCESS, id=request_id)
    _add_input(message, "REQUEST", "BYTES", 1, _bytes_element(body))
    for name in ("PLAN", "QUESTIONS"):
        message.outputs.add(name=name)
    return message


def postprocess_request(preprocessed: service_pb2.ModelInferResponse, request_id: str) -> service_pb2.ModelInferRequest:
    """A call of the postprocess step alone, after `preprocess_request` was answered so, with every logit 0.

    Raises BadResponse where an output is missing or malformed.
    """
    with _named(preprocessed) as outputs:
        options = sum(options for *_, options in _QUESTION.iter_unpack(outputs["QUESTIONS"]))
        message = service_pb2.ModelInferRequest(model_name=POSTPROCESS, id=request_id)
        _add_input(message, "PLAN", "BYTES", 1, outputs["PLAN"])
        _add_input(message, "LOGITS", "FP32", options, bytes(options * _FLOAT.size))
        message.outputs.add(name="RESPONSE")
        return message


def read_response(
    message: service_pb2.ModelInferResponse, model: Callable[[bytes], ModelInfo], asked_by: str | None = None
) -> Decision:
    """The ensemble's outputs; `model` reads MODEL_INFO. Raises BadResponse where one is missing or malformed.

    `asked_by` is the `cancel_token` of a request to `clef_cached`: what was computed for another one was kept, with
    times that are that one's.
    """
    with _named(message) as outputs:
        cached = asked_by is not None and _only_element(outputs["COMPUTED_FOR"]) != asked_by.encode()
        queue, preprocess, compute, postprocess = (_FLOAT.unpack(outputs[name])[0] * (not cached) for name in _TIMES)
        return Decision(
            response=_only_element(outputs["RESPONSE"]),
            model=model(_only_element(outputs["MODEL_INFO"])),
            queue_ms=queue,
            preprocess_ms=preprocess,
            compute_ms=compute,
            postprocess_ms=postprocess,
            batch_size=_INT.unpack(outputs["BATCH_SIZE"])[0] * (not cached),
            images=_rows(outputs["IMAGE_GRID"], 3 * _INT.size)
            if asked_by is None
            else _INT.unpack(outputs["IMAGE_COUNT"])[0],
            cached=cached,
        )


def service_error(code: str, text: str) -> ServiceError:
    """What a failed call means to an HTTP client, from gRPC's status name and text.

    Our own steps put their error's JSON into the text, behind a prefix of Triton's; every other text is Triton's or
    gRPC's own and stays here.
    """
    if '{"status"' in text:
        return ServiceError.from_json(text)
    if _NO_ROOM in text:
        return Overloaded("The memory that the model's steps share has no room at the moment.")
    if code in ("UNAVAILABLE", "CANCELLED"):  # gone, starting, full, or stopping with our call in it
        return Overloaded("the model server is not available at the moment")
    if code == "DEADLINE_EXCEEDED":
        return DeadlineExceeded("the deadline passed before the answer came")
    return InternalError()


@functools.cache
def _template(ensemble: str) -> service_pb2.ModelInferRequest:
    message = service_pb2.ModelInferRequest(model_name=ensemble)
    message.inputs.add(name="REQUEST", datatype="BYTES", shape=[1, 1])
    for name in _OUTPUTS[ensemble]:
        message.outputs.add(name=name)
    return message


@functools.cache
def _cancel_template() -> service_pb2.ModelInferRequest:
    message = service_pb2.ModelInferRequest(model_name=MODEL)
    for name, datatype, row in _MODEL_INPUTS:
        message.inputs.add(name=name, datatype=datatype, shape=[1, 0, *row])
        message.raw_input_contents.append(b"")
    message.outputs.add(name="BATCH_SIZE")
    return message


def _set_parameter(slot: service_pb2.InferParameter, value: Parameter) -> None:
    if isinstance(value, bool):  # before int, which a bool also is
        slot.bool_param = value
    elif isinstance(value, int):
        slot.int64_param = value
    elif isinstance(value, float):
        slot.double_param = value
    else:
        slot.string_param = value


@contextlib.contextmanager
def _named(message: service_pb2.ModelInferResponse) -> Iterator[dict[str, bytes]]:
    """The outputs by name. Raises BadResponse where the block misses one, or cannot unpack it."""
    try:
        yield {
            tensor.name: content for tensor, content in zip(message.outputs, message.raw_output_contents, strict=False)
        }
    except KeyError as error:
        raise BadResponse(f"the ensemble gave no {error.args[0]}") from error
    except struct.error as error:
        raise BadResponse(f"the ensemble gave a malformed output: {error}") from error


def _add_input(message: service_pb2.ModelInferRequest, name: str, datatype: str, elements: int, content: bytes) -> None:
    message.inputs.add(name=name, datatype=datatype, shape=[1, elements])
    message.raw_input_contents.append(content)


def _bytes_element(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value


def _rows(content: bytes, row_bytes: int) -> int:
    rows, rest = divmod(len(content), row_bytes)
    if rest:
        raise BadResponse("the ensemble gave a tensor that is not whole rows")
    return rows


def _only_element(content: bytes) -> bytes:
    (length,) = _LENGTH.unpack_from(content)
    if len(content) != _LENGTH.size + length:
        raise BadResponse("the ensemble gave a BYTES output that is not one element")
    return content[_LENGTH.size :]
