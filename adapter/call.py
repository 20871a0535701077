"""One request at one step, answered or failed through its response sender, and its one line of JSON in Triton's log.

A good response is sent before its line is written, so that the next step begins meanwhile.

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

from adapter.tensors import Array, Tensors, response
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

    def __init__(self, step: str, request: pb_utils.InferenceRequest) -> None:
        self.id = _id_of(request)
        self._step = step
        self._sender = request.get_response_sender()
        self._started = time.perf_counter()

    def elapsed_ms(self) -> Array:
        """The time until now, as a tensor FP32 [1]."""
        return np.array([(time.perf_counter() - self._started) * 1e3], dtype=np.float32)

    def answer(self, tensors: Tensors, log: bool = True) -> None:
        """Send the step's response. `log`: whether its line is written, unless it is a heartbeat."""
        try:
            built = response(tensors)
        except Exception as error:  # no room for it in the shared memory, say: the client is told, and not left
            self.fail(error)
            return
        self._send(built)
        if log and self.id != HEARTBEAT:
            self._log("info", "request", status=200)

    def fail(self, error: Exception) -> None:
        """Send the JSON of a ServiceError in place of a response.

        Anything unforeseen becomes a bare internal error for the client; the line says where it happened, and not
        what it says, since an exception's text may quote the request.
        """
        unforeseen: dict[str, object] = {}
        if NO_ROOM in str(error):
            error = Overloaded("The memory that the steps share has no room at the moment.")
        if not isinstance(error, ServiceError):
            trace = traceback.extract_tb(error.__traceback__)
            where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in trace]
            unforeseen = {"exception": type(error).__name__, "at": where}
            error = InternalError()
        level = "error" if unforeseen else "warning" if error.status >= 500 else "info"
        message = "request failed" if unforeseen else "request"
        self._log(level, message, status=error.status, error_type=error.error_type, **unforeseen)
        self._send(pb_utils.InferenceResponse(error=pb_utils.TritonError(error.to_json(), _code(error))))

    def _send(self, built: pb_utils.InferenceResponse) -> None:
        self._sender.send(built, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _log(self, level: str, message: str, **fields: object) -> None:
        now = time.time()
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z",
            "level": level,
            "logger": self._step,
            "message": message,
            "request_id": self.id[:MAX_ID_CHARS],
            "ms": round((time.perf_counter() - self._started) * 1e3, 3),
            **fields,
        }
        # One write is one whole line, whatever the other steps write meanwhile. A log that is gone fails nobody.
        with contextlib.suppress(OSError):
            os.write(STDERR, (json.dumps(line) + "\n").encode())


def _id_of(request: pb_utils.InferenceRequest) -> str:
    """Empty where it is no text: KServe over HTTP takes any bytes. What is raised before a request can be answered
    fails all that came with it, and Triton itself ends where another of those is answered then.
    """
    try:
        return str(request.request_id())
    except UnicodeDecodeError:
        return ""


def _code(error: ServiceError) -> int:
    # The JSON carries the exact status; the code is for clients that look at gRPC's or KServe's alone.
    codes = pb_utils.TritonError
    ours: int = codes.INTERNAL if error.status == 500 else codes.UNAVAILABLE
    theirs: int = codes.INVALID_ARG
    return ours if error.status >= 500 else theirs
