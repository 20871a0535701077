"""typesafe-sdk: its own exception for each of our errors, with our words and our request id in it."""

import os

from asking import QUESTIONS, TICKET, TOO_MANY_LEVELS, URL, raised, report
from typesafe_sdk import (
    RetryPolicy,
    TypeSafeAPIError,
    TypeSafeAuthenticationError,
    TypeSafeBadRequestError,
    TypeSafeClient,
    TypeSafeInternalServerError,
    TypeSafeNotFoundError,
    TypeSafePermissionDeniedError,
    TypeSafeRateLimitError,
    TypeSafeUnprocessableEntityError,
)

FAULTY_URL = os.environ["FAULTY_URL"]
ONCE = RetryPolicy(max_retries=0)
STEEP = {"anger": {"type": "score", "instructions": "How frustrated?", "criteria": TOO_MANY_LEVELS}}
errors = []


def meets(kind, status, error_type, call):
    error = raised(kind, call)
    assert error.status == status, error
    assert error.request_id and error.request_id in str(error)
    detail = error.body["detail"]
    if error_type is None:
        assert all({"loc", "msg", "type"} == set(issue) for issue in detail), detail
        assert detail[0]["msg"] in str(error)
    else:
        assert detail["error_type"] == error_type, detail
        assert detail["message"] in str(error)
    errors.append(error)
    return error


with TypeSafeClient(base_url=URL, retry=ONCE, timeout=60) as client:
    meets(
        TypeSafeBadRequestError,
        400,
        "api_usage_error",
        lambda: client.system_one(TICKET, QUESTIONS, model="no-such-model"),
    )
    meets(TypeSafeUnprocessableEntityError, 422, None, lambda: client.system_one(TICKET, STEEP))
    tokens = meets(TypeSafeAPIError, 413, "request_too_large", lambda: client.system_one("word " * 40_000, QUESTIONS))
    assert "16384" in str(tokens).replace(",", ""), tokens
    meets(TypeSafeAPIError, 413, "request_too_large", lambda: client.system_one("x" * 14_000_000, QUESTIONS))
    encoding = {"Content-Encoding": "br"}
    meets(
        TypeSafeAPIError,
        415,
        "invalid_request_error",
        lambda: client.system_one("short", {"q": QUESTIONS["refund"]}, extra_headers=encoding),
    )
with TypeSafeClient(base_url=f"{URL}/elsewhere", retry=ONCE) as client:
    meets(TypeSafeNotFoundError, 404, "not_found_error", lambda: client.models.list())

# The same frontend over a Triton that fails as the state says.
with TypeSafeClient(base_url=FAULTY_URL, retry=ONCE) as client:
    for fault, kind, status, error_type in (
        ("unauthenticated", TypeSafeAuthenticationError, 401, "authentication_error"),
        ("denied", TypeSafePermissionDeniedError, 403, "permission_error"),
        ("limited", TypeSafeRateLimitError, 429, "rate_limit_error"),
        ("broken", TypeSafeInternalServerError, 500, "api_error"),
        ("overloaded", TypeSafeInternalServerError, 503, "overloaded_error"),
        ("late", TypeSafeInternalServerError, 504, "timeout_error"),
    ):
        state = {"fault": fault, "times": 1, "of": "errors"}
        error = meets(kind, status, error_type, lambda state=state: client.system_one(state, QUESTIONS))
        if fault == "limited":
            assert error.retry_after_ms == 250.0, error.retry_after_ms
        if fault == "broken":
            assert error.request_id in error.body["detail"]["message"]
report(len(errors), *errors)
