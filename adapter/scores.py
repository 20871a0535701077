"""How the results of `clef`, which knows nothing of Triton or HTTP, are told: scores as tensors, errors as answers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adapter.call import Call
from adapter.tensors import Tensors
from clef.errors import Cancelled, DeadlinePassed, InvalidRecord, Unavailable
from clef.scheduler import Scores
from preprocess.errors import DeadlineExceeded, InvalidRequest, Overloaded, ServiceError

# Any other is an internal error.
TOLD: dict[type[Exception], type[ServiceError]] = {
    Cancelled: Overloaded,  # nobody is there to read it
    DeadlinePassed: DeadlineExceeded,
    InvalidRecord: InvalidRequest,
    Unavailable: Overloaded,
}


def reply(call: Call) -> Callable[[Scores | Exception], None]:
    """A function that answers the request, to be called once."""

    def answer(result: Scores | Exception) -> None:
        if isinstance(result, Exception):
            told = TOLD.get(type(result))
            call.fail(result if told is None else told(str(result)))
        else:
            call.answer(tensors(result))

    return answer


def tensors(scores: Scores) -> Tensors:
    """The outputs of the model step."""
    times_ms = {"QUEUE_MS": scores.queue_ms, "COMPUTE_MS": scores.compute_ms}
    return {
        "LOGITS": scores.logits,
        "BATCH_SIZE": np.array([scores.batch_size], dtype=np.int32),
        **{name: np.array([value], dtype=np.float32) for name, value in times_ms.items()},
    }
