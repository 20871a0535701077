"""One request at one step, answered or failed, and its one line of JSON in Triton's log.

The lines have the shape of the frontend's, and hold as little of a request: its id, what came of it and how long that
took. They go straight to standard error, where Triton's own log is: on two busy cores a line through
`pb_utils.Logger` measured 90 to 540 µs, one of these 36.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback

import numpy as np
import triton_python_backend_utils as pb_utils

from adapter.tensors import Tensors, response
from preprocess.errors import InternalError, Overloaded, ServiceError

# What the frontend asks when nobody else does; its good answers would be most of an idle server's log.
HEARTBEAT = "heartbeat"
STDERR = 2
# What Triton says where a tensor finds no room in the memory that the steps share.
NO_ROOM = "Failed to increase the shared memory pool"
# Whoever asks Triton directly chooses the id, of any length.
MAX_ID_CHARS = 128


class Call:
    """One request at one step, from its arrival on. Holds nothing of its tensors, which may wait for long."""

    def __init__(self, step: str, request_id: str) -> None:
        self._step = step
        self._id = request_id
        self._started = time.perf_counter()

    def elapsed_ms(self) -> np.ndarray:
        """The time until now, as a tensor FP32 [1]."""
        return np.array([(time.perf_counter() - self._started) * 1e3], dtype=np.float32)

    def answered(self, tensors: Tensors) -> pb_utils.InferenceResponse:
        """The step's response, and its line."""
        built = response(tensors)
        if self._id != HEARTBEAT:
            self._log("info", "request", status=200)
        return built

    def failed(self, error: Exception) -> pb_utils.InferenceResponse:
        """A response that holds the JSON of a ServiceError, and its line.

        Anything unforeseen becomes a bare internal error for the client; the line says where it happened, and not
        what it says, since an exception's text may quote the request.
        """
        if NO_ROOM in str(error):
            error = Overloaded("The memory that the steps share has no room at the moment.")
        if isinstance(error, ServiceError):
            self._log("warning" if error.status >= 500 else "info", "request", **_outcome(error))
        else:
            trace = traceback.extract_tb(error.__traceback__)
            where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in trace]
            unforeseen = {"exception": type(error).__name__, "at": where}
            error = InternalError()
            self._log("error", "request failed", **_outcome(error), **unforeseen)
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(error.to_json(), _code(error)))

    def _log(self, level: str, message: str, **fields: object) -> None:
        now = time.time()
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z",
            "level": level,
            "logger": self._step,
            "message": message,
            "request_id": self._id[:MAX_ID_CHARS],
            "ms": round((time.perf_counter() - self._started) * 1e3, 3),
            **fields,
        }
        # One write is one whole line, whatever the other steps write meanwhile. A log that is gone fails nobody.
        with contextlib.suppress(OSError):
            os.write(STDERR, (json.dumps(line) + "\n").encode())


def _outcome(error: ServiceError) -> dict[str, object]:
    return {"status": error.status, "error_type": error.error_type}


def _code(error: ServiceError) -> int:
    # The JSON carries the exact status; the code is for clients that look at gRPC's or KServe's alone.
    if error.status >= 500:
        return pb_utils.TritonError.INTERNAL if error.status == 500 else pb_utils.TritonError.UNAVAILABLE
    return pb_utils.TritonError.INVALID_ARG
