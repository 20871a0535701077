"""A request at a step: what its caller gets, what is written, and which of the two is first."""

from __future__ import annotations

import json

import numpy as np
import pytest

from adapter.call import HEARTBEAT, MAX_ID_CHARS, NO_ROOM, Call
from adapter.step import respond
from frontend import triton as frontend
from preprocess.errors import DeadlineExceeded, InvalidRequest, Overloaded, ServiceError
from tests.adapter import triton
from tests.adapter.conftest import Outside

SECRET = "swordfish"
ANSWER = {"LOGITS": np.array([1.0, 2.0], np.float32)}


def refused(response: triton.InferenceResponse) -> ServiceError:
    assert response.error is not None and response.output_tensors == []
    return ServiceError.from_json(response.error.message)


def test_an_answer_is_out_before_its_line_is_written(outside: Outside) -> None:
    Call("a_step", outside.request()).answer(ANSWER)
    response, line = outside.events
    assert isinstance(response, triton.InferenceResponse) and isinstance(line, dict)
    [tensor] = response.output_tensors
    assert (tensor.name(), tensor.as_numpy().tolist()) == ("LOGITS", [[1.0, 2.0]])
    assert line["ms"] >= 0 and line["time"].endswith("Z")
    told = {name: line[name] for name in ("level", "logger", "message", "request_id", "status")}
    assert told == {"level": "info", "logger": "a_step", "message": "request", "request_id": "mine", "status": 200}


@pytest.mark.parametrize(
    ("error", "code", "level"),
    [
        (InvalidRequest("no"), "INVALID_ARG", "info"),
        (Overloaded("full"), "UNAVAILABLE", "warning"),
        (DeadlineExceeded("late"), "UNAVAILABLE", "warning"),
    ],
)
def test_a_refusal_is_written_before_it_is_out(outside: Outside, error: ServiceError, code: str, level: str) -> None:
    Call("a_step", outside.request()).fail(error)
    line, response = outside.events
    assert isinstance(response, triton.InferenceResponse) and isinstance(line, dict)
    assert refused(response).detail == error.detail
    assert response.error is not None and response.error.code == code
    assert (line["level"], line["status"], line["error_type"]) == (level, error.status, error.error_type)


def test_an_unforeseen_failure_says_where_it_was_and_not_what_it_said(outside: Outside) -> None:
    def step(inputs: object, parameters: object) -> None:
        raise KeyError(SECRET)

    respond([outside.request()], step, "a_step", clock="MS")  # type: ignore[arg-type]
    [response], [line] = outside.responses, outside.lines
    assert refused(response).status == line["status"] == 500
    assert response.error is not None and response.error.code == "INTERNAL"
    assert (line["level"], line["message"], line["exception"]) == ("error", "request failed", "KeyError")
    assert any("test_call.py" in place for place in line["at"])
    assert SECRET not in json.dumps(line) + response.error.message


def test_an_answer_that_finds_no_room_is_told_so(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise RuntimeError(f"{NO_ROOM} size for key '{SECRET}'")

    call = Call("a_step", outside.request())
    monkeypatch.setattr(triton, "Tensor", full)
    call.answer(ANSWER)
    [response], [line] = outside.responses, outside.lines
    assert refused(response).status == line["status"] == 503
    assert "exception" not in line


def test_a_heartbeat_leaves_a_line_where_it_fails_alone(outside: Outside) -> None:
    assert HEARTBEAT == frontend.HEARTBEAT
    Call("a_step", outside.request(id=HEARTBEAT)).answer(ANSWER)
    assert outside.lines == []
    Call("a_step", outside.request(id=HEARTBEAT)).fail(Overloaded("full"))
    assert [line["status"] for line in outside.lines] == [503]


def test_an_id_of_any_length_and_of_any_text_is_one_short_line(outside: Outside) -> None:
    Call("a_step", outside.request(id="two\nlines" * 1000)).answer(ANSWER)
    assert outside.lines[0]["request_id"] == ("two\nlines" * 1000)[:MAX_ID_CHARS]


def test_an_id_that_is_no_text_is_none_and_fails_nobody(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = outside.request(id="\xff"), outside.request()
    monkeypatch.setattr(triton.InferenceRequest, "request_id", lambda self: self.id.encode("latin-1").decode())
    respond([good, bad, good], lambda inputs, parameters: ANSWER, "a_step", clock="MS")
    assert [line["request_id"] for line in outside.lines] == ["mine", "", "mine"]
    assert [response.error for response in outside.responses] == [None] * 3


def test_parameters_that_are_no_text_are_refused(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.InferenceRequest, "parameters", lambda self: b"\xff".decode())
    respond([outside.request()], lambda inputs, parameters: ANSWER, "a_step", clock="MS")
    [response] = outside.responses
    assert refused(response).status == 400


def test_a_log_that_is_gone_fails_nobody(outside: Outside) -> None:
    outside.broken = BrokenPipeError()
    Call("a_step", outside.request()).answer(ANSWER)
    Call("a_step", outside.request()).fail(Overloaded("full"))
    assert len(outside.responses) == 2
