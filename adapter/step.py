"""What the three Python models share: tensors in, tensors out, and a failure as one Triton error.

Every tensor has a leading batch axis of 1 on the wire and none inside. A Triton error's text is the JSON of a
`ServiceError`, so that a status survives the way through the ensemble; anything unforeseen becomes a bare
internal error for the client, and its traceback goes to the server's log under the request's id.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Mapping

import numpy as np
import triton_python_backend_utils as pb_utils

from preprocess.errors import InternalError, InvalidRequest, ServiceError

Tensors = Mapping[str, np.ndarray]
Parameters = dict[str, str | int | bool]
Step = Callable[[dict[str, np.ndarray], Parameters], Tensors]


def read(request: pb_utils.InferenceRequest) -> dict[str, np.ndarray]:
    """Every input that the request carries, without its batch axis."""
    tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
    if any(len(array) != 1 for array in tensors.values()):
        raise InvalidRequest("every tensor needs a batch axis of exactly 1")
    return {name: array[0] for name, array in tensors.items()}


def parameters(request: pb_utils.InferenceRequest) -> Parameters:
    """The request's custom parameters."""
    return json.loads(request.parameters() or "{}")


def response(tensors: Tensors) -> pb_utils.InferenceResponse:
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, array[None]) for name, array in tensors.items()])


def failure(error: Exception, request_id: str) -> pb_utils.InferenceResponse:
    if not isinstance(error, ServiceError):
        # Where it happened, not what it says: an exception's text may quote the request.
        trace = "".join(traceback.format_tb(error.__traceback__))
        pb_utils.Logger.log_error(f"request {request_id}: {type(error).__name__}\n{trace}")
        error = InternalError()
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(error.to_json(), _code(error)))


def _code(error: ServiceError) -> int:
    # The JSON carries the exact status; the code is for clients that look at gRPC's or KServe's alone.
    if error.status >= 500:
        return pb_utils.TritonError.INTERNAL if error.status == 500 else pb_utils.TritonError.UNAVAILABLE
    return pb_utils.TritonError.INVALID_ARG


def respond(requests: list[pb_utils.InferenceRequest], step: Step, clock: str) -> list[pb_utils.InferenceResponse]:
    """Answer each request by `step(inputs, parameters)`, its milliseconds added as the tensor named `clock`."""
    return [_respond(request, step, clock) for request in requests]


def _respond(request: pb_utils.InferenceRequest, step: Step, clock: str) -> pb_utils.InferenceResponse:
    start = time.perf_counter()
    try:
        outputs = dict(step(read(request), parameters(request)))
    except Exception as error:  # the process's boundary: a request's failure is its own, whatever it was
        return failure(error, request.request_id())
    outputs[clock] = np.array([(time.perf_counter() - start) * 1e3], dtype=np.float32)
    return response(outputs)
