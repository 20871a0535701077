"""A request's id from its HTTP header to the line that each step writes, and nothing of the request beside it."""

from __future__ import annotations

import json
import time

import pytest
from tritonclient.utils import InferenceServerException

from tests.golden_cases import CASES
from tests.stack.running import STEPS, Stack, ask

GOOD = CASES["three-types"]["request"]
SECRET = "swordfish"


def access_line(stack: Stack, request_id: str) -> dict:
    """The frontend's line, which it writes once the answer is sent."""
    for _ in range(100):
        lines = [json.loads(line) for line in stack.frontend_log.read_text("utf-8").splitlines()]
        found = [line for line in lines if line.get("request_id") == request_id and line["logger"] == "frontend.access"]
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(f"no line of {request_id}")


def test_an_id_reaches_the_line_of_every_step(stack, http):
    answer = http.post("/v1/systemone", json=GOOD, headers={"x-request-id": "from-the-header"})
    assert answer.headers["x-request-id"] == answer.headers["x-typesafe-request-id"] == "from-the-header"
    lines = stack.answered("from-the-header")
    assert [line["status"] for line in lines] == [200] * 3
    access = access_line(stack, "from-the-header")
    assert access["status"] == 200
    assert all(0 < line["ms"] < access["ms"] for line in lines)
    assert [set(line) for line in lines] == [{"time", "level", "logger", "message", "request_id", "ms", "status"}] * 3


def test_an_id_that_the_frontend_made_is_the_same_in_all(stack, http):
    request_id = http.post("/v1/systemone", json=GOOD).headers["x-request-id"]
    assert [line["logger"] for line in stack.answered(request_id)] == list(STEPS)
    assert access_line(stack, request_id)["status"] == 200


def test_the_items_of_a_batch_have_ids_of_their_own(stack, http):
    http.post("/v1/systemone/batch", json=[GOOD, GOOD], headers={"x-request-id": "two"})
    assert [line["logger"] for line in stack.answered("two.0")] == list(STEPS)
    assert [line["logger"] for line in stack.answered("two.1")] == list(STEPS)


def test_who_asks_triton_directly_has_lines_too(stack, grpc):
    ask(grpc, GOOD, request_id="direct")
    assert [line["logger"] for line in stack.answered("direct")] == list(STEPS)
    unruly = 'id "with" quotes\nand a line' + "x" * 200
    ask(grpc, GOOD, request_id=unruly)
    assert [line["logger"] for line in stack.answered(unruly[:128])] == list(STEPS)


def test_a_refusal_is_the_last_line_of_its_request(stack, grpc):
    with pytest.raises(InferenceServerException):
        ask(grpc, GOOD | {"questions": {SECRET: {"type": SECRET}}}, request_id="refused")
    [line] = stack.lines("refused")
    assert (line["logger"], line["status"], line["error_type"]) == ("clef_preprocess", 422, "validation_error")
    with pytest.raises(InferenceServerException):
        ask(grpc, GOOD, request_id="late", deadline_ms=1)
    [line] = stack.lines("late")
    assert (line["logger"], line["status"], line["error_type"]) == ("clef_preprocess", 504, "timeout_error")
    assert line["level"] == "warning"


def test_no_log_holds_anything_of_a_request(stack, http, grpc):
    picture = CASES["image-native-grid"]["request"]["images"]
    request = {
        "state": SECRET,
        "questions": {SECRET: {"type": "choice", "instructions": SECRET, "criteria": {SECRET: SECRET}}},
        "images": picture,
    }
    assert http.post("/v1/systemone", json=request).status_code == 200
    assert http.post("/v1/systemone", json=request | {"model": SECRET}).status_code == 400
    assert http.post("/v1/systemone", content=json.dumps(request)[:-9]).status_code == 422
    with pytest.raises(InferenceServerException):
        ask(grpc, request, semantics=SECRET)
    for log in (stack.log, stack.frontend_log):
        text = log.read_text("utf-8")
        assert SECRET not in text
        assert picture[0][-200:] not in text


def test_a_good_heartbeat_leaves_no_line(stack, http):
    assert http.get("/health").status_code == 200
    assert 200 not in [line["status"] for line in stack.lines("heartbeat")]
