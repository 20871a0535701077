"""A step that answers as it is asked: what `clef_preprocess` and `clef_postprocess` are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import triton_python_backend_utils as pb_utils

from adapter.call import Call
from adapter.tensors import Parameters, Tensors, parameters, read

Step = Callable[[dict[str, np.ndarray], Parameters], Tensors]


def respond(
    requests: list[pb_utils.InferenceRequest], step: Step, name: str, clock: str
) -> list[pb_utils.InferenceResponse]:
    """Answer each request by `step(inputs, parameters)`, its milliseconds added as the tensor named `clock`.

    `name` is the step's in the log.
    """
    return [_respond(request, step, Call(name, request.request_id()), clock) for request in requests]


def _respond(request: pb_utils.InferenceRequest, step: Step, call: Call, clock: str) -> pb_utils.InferenceResponse:
    try:
        outputs = dict(step(read(request), parameters(request)))
        outputs[clock] = call.elapsed_ms()
        return call.answered(outputs)
    except Exception as error:  # the process's boundary: a request's failure is its own, whatever it was
        return call.failed(error)
