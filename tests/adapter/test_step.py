"""A step between its tensors: what it is given, what it gives, and that each request is answered by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adapter.call import Call
from adapter.scores import reply
from adapter.step import respond
from clef.errors import Cancelled, ComputeFailed, DeadlinePassed, InvalidRecord, Unavailable
from clef.scheduler import Scores
from preprocess.errors import ServiceError
from tests.adapter.conftest import Outside


def double(inputs: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    return {"TWICE": inputs["ONCE"] * parameters.get("times", 2)}


def test_tensors_lose_their_batch_axis_and_get_it_back(outside: Outside) -> None:
    request = outside.request(tensors={"ONCE": np.array([[1, 2]])}, told={"times": 3})
    respond([request], double, "a_step", clock="DOUBLE_MS")
    outputs = {tensor.name(): tensor.as_numpy() for tensor in outside.responses[0].output_tensors}
    assert outputs["TWICE"].tolist() == [[3, 6]]
    assert outputs["DOUBLE_MS"].shape == (1, 1) and outputs["DOUBLE_MS"].dtype == np.float32


@pytest.mark.parametrize("rows", [0, 2])
def test_other_than_one_row_is_refused_and_the_next_request_answered(outside: Outside, rows: int) -> None:
    requests = [outside.request(tensors={"ONCE": np.ones((count, 2))}) for count in (rows, 1)]
    respond(requests, double, "a_step", clock="DOUBLE_MS")
    bad, good = outside.responses
    assert bad.error is not None and ServiceError.from_json(bad.error.message).status == 400
    assert good.error is None and len(good.output_tensors) == 2


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidRecord("a record needs tokens"), 400),
        (DeadlinePassed("late"), 504),
        (Cancelled("given up"), 503),
        (Unavailable("full"), 503),
        (ComputeFailed("the forward pass failed"), 500),
    ],
)
def test_the_models_errors_have_their_status(outside: Outside, error: Exception, status: int) -> None:
    reply(Call("clef_model", outside.request()))(error)
    [response] = outside.responses
    assert response.error is not None
    told = ServiceError.from_json(response.error.message)
    assert told.status == status
    assert (str(error) in response.error.message) == (status != 500)


def test_scores_are_the_model_steps_outputs(outside: Outside) -> None:
    reply(Call("clef_model", outside.request()))(Scores(np.array([0.5], np.float32), 1.5, 2.5, 3))
    outputs = {tensor.name(): tensor.as_numpy() for tensor in outside.responses[0].output_tensors}
    assert {name: (array.dtype.name, array.tolist()) for name, array in outputs.items()} == {
        "LOGITS": ("float32", [[0.5]]),
        "QUEUE_MS": ("float32", [[1.5]]),
        "COMPUTE_MS": ("float32", [[2.5]]),
        "BATCH_SIZE": ("int32", [[3]]),
    }
