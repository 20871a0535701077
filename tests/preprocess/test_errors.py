"""What a client is told: the shape of each error, its size, and its way through Triton's error text."""

from __future__ import annotations

import json

import pytest

from preprocess.errors import (
    MAX_JSON_BYTES,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    Overloaded,
    RequestTooLarge,
    ServiceError,
    ValidationFailed,
)

MESSAGES = [
    (InvalidRequest("no"), 400, "invalid_request_error"),
    (InvalidRequest("no", error_type="api_usage_error"), 400, "api_usage_error"),
    (RequestTooLarge("no"), 413, "request_too_large"),
    (Overloaded("no"), 503, "overloaded_error"),
    (DeadlineExceeded("no"), 504, "timeout_error"),
    (InternalError("no"), 500, "api_error"),
]


@pytest.mark.parametrize(("error", "status", "error_type"), MESSAGES)
def test_an_error_has_its_status_and_type(error: ServiceError, status: int, error_type: str) -> None:
    assert json.loads(error.to_json()) == {"status": status, "detail": {"error_type": error_type, "message": "no"}}
    assert (error.status, error.error_type, str(error)) == (status, error_type, "no")


def test_a_validation_error_is_a_list_of_issues() -> None:
    error = ValidationFailed.at(["body", "questions", "q", 0], "Wrong", "wrong")
    issue = {"loc": ["body", "questions", "q", 0], "msg": "Wrong", "type": "wrong"}
    assert json.loads(error.to_json()) == {"status": 422, "detail": [issue]}
    assert str(error) == "body.questions.q.0: Wrong"


@pytest.mark.parametrize("prefix", ["", "in ensemble 'clef', ", "[StatusCode.INVALID_ARGUMENT] in ensemble 'clef', "])
@pytest.mark.parametrize("error", [error for error, *_ in MESSAGES] + [ValidationFailed.at(["body"], "Wrong", "wrong")])
def test_an_error_survives_its_way_through_an_error_text(error: ServiceError, prefix: str) -> None:
    read = ServiceError.from_json(prefix + error.to_json() + "\n")
    assert type(read) is type(error)
    assert (read.status, read.error_type, read.detail) == (error.status, error.error_type, error.detail)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Stub process is not healthy",
        "{",
        "{}",
        '{"status": 418, "detail": {"message": "x"}}',
        '{"status": 422, "detail": [{"loc": 5}]}',
        '{"status": 422, "detail": null}',
        '{"status": 422, "detail": [{"loc": ["body"], "msg": [], "type": "x"}]}',
        '{"status": 422, "detail": ["x"]}',
        '{"status": 400, "detail": "x"}',
        '{"status": [], "detail": {"message": "x"}}',
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
)
def test_a_text_without_an_error_becomes_an_internal_one_that_repeats_nothing(text: str) -> None:
    error = ServiceError.from_json(text)
    assert type(error) is InternalError
    assert error.detail == InternalError().detail


@pytest.mark.parametrize("name", ["q", "질" * 500, '"\\' * 300, "\ud800" * 100, "\x00" * 300, "😀" * 300])
@pytest.mark.parametrize("count", [1, 30, 20_000])
def test_a_list_of_issues_fits_and_counts_those_left_out(name: str, count: int) -> None:
    issue = {"loc": ["body", "questions", name, "choice", "criteria", name], "msg": "Wrong", "type": "wrong"}
    error = ValidationFailed([issue] * count)
    text = error.to_json()
    assert len(text.encode()) <= MAX_JSON_BYTES
    issues = json.loads(text)["detail"]
    assert issues == error.detail
    if len(issues) < count:
        assert issues[-1] == {"loc": ["body"], "msg": f"and {count - len(issues) + 1} more", "type": "more"}
        assert len(text.encode()) > MAX_JSON_BYTES - 1_000
    else:
        assert [item["type"] for item in issues] == ["wrong"] * count


def test_a_cut_list_survives_a_second_way_through_an_error_text() -> None:
    error = ValidationFailed([{"loc": ["body", "x" * 50], "msg": "Wrong", "type": "wrong"}] * 1_000)
    assert ServiceError.from_json(error.to_json()).to_json() == error.to_json()


def test_a_deep_place_is_shortened() -> None:
    error = ValidationFailed.at(["body", *["key"] * 200], "Wrong", "wrong")
    assert error.detail[0]["loc"] == ["body", *["key"] * 14, "…"]


def test_a_long_message_is_shortened() -> None:
    text = InvalidRequest("é" * 10_000).to_json()
    assert len(text.encode()) <= MAX_JSON_BYTES
    assert json.loads(text)["detail"]["message"] == "é" * 499 + "…"
