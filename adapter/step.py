"""A step that answers as it is asked: what `clef_preprocess` and `clef_postprocess` are."""

from __future__ import annotations

from collections.abc import Callable

import triton_python_backend_utils as pb_utils

from adapter.call import Call
from adapter.tensors import Array, Parameters, Tensors, parameters, read

Step = Callable[[dict[str, Array], Parameters], Tensors]


def respond(requests: list[pb_utils.InferenceRequest], step: Step, name: str, clock: str) -> None:
    """Answer each request by `step(inputs, parameters)`, its milliseconds added as the tensor named `clock`.

    `name` is the step's in the log.
    """
    for request in requests:
        call = Call(name, request)
        try:
            outputs = dict(step(read(request), parameters(request)))
        except Exception as error:  # the process's boundary: a request's failure is its own, whatever it was
            call.fail(error)
        else:
            outputs[clock] = call.elapsed_ms()
            call.answer(outputs)
