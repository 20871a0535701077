"""From an exception to an HTTP answer, in one place.

A `ServiceError` knows its status and its detail, whichever room raised it. The SystemOne shape is `{"detail": …}`; a
dialect with an envelope of its own renders the same errors on its own routes: `request.state.render` is the one of the
path, and a route that finds out more may set it.
"""

import json
import math
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from preprocess.errors import InternalError, Overloaded, ServiceError

RETRY_AFTER_S = 1

Render = Callable[[ServiceError, str], Response]
"""From an error and the request's id to the answer, in one dialect's envelope."""


class AuthenticationFailed(ServiceError):
    """401: a key is required and missing, or it is wrong."""

    status = 401
    error_type = "authentication_error"


class PermissionDenied(ServiceError):
    """403: the caller's tier may not do this, now or later."""

    status = 403
    error_type = "permission_error"


class NotFound(ServiceError):
    """404: no such route."""

    status = 404
    error_type = "not_found_error"


class MethodNotAllowed(ServiceError):
    """405: the route takes another method."""

    status = 405
    error_type = "invalid_request_error"


class RequestTimeout(ServiceError):
    """408: the head or the body did not arrive in time."""

    status = 408
    error_type = "timeout_error"


class UnsupportedEncoding(ServiceError):
    """415: a Content-Encoding that is not read here."""

    status = 415
    error_type = "invalid_request_error"


class RateLimited(ServiceError):
    """429: the rate is spent; `retry_after_s` says when the same request would be taken."""

    status = 429
    error_type = "rate_limit_error"

    def __init__(self, limit: int, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(f"The rate of {limit} decisions a minute is spent. Try again in {retry_after_s:.1f} s.")


def internal_error(request_id: str) -> InternalError:
    """What a client is told of a failure of ours: the id that finds it in the log."""
    return InternalError(f"The server failed to answer this request. Its id is {request_id}.")


def render(error: ServiceError, request_id: str) -> Response:
    """The SystemOne shape of an error. The detail is cut as it is for Triton, to 4 kB."""
    content = json.dumps({"detail": error.detail}, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(content, error.status, headers_of(error), media_type="application/json")


def headers_of(error: ServiceError) -> dict[str, str]:
    """Headers that go with an error in every dialect: how to come in, or when to come back."""
    match error:
        case AuthenticationFailed():
            return {"www-authenticate": "Bearer"}
        case RateLimited(retry_after_s=wait_s):
            return _retry_headers(wait_s)
        case Overloaded():
            return _retry_headers(RETRY_AFTER_S)
    return {}


def _retry_headers(wait_s: float) -> dict[str, str]:
    return {"retry-after": str(math.ceil(wait_s)), "retry-after-ms": str(math.ceil(wait_s * 1000))}


def install(app: FastAPI) -> None:
    """Answer every error that a route or the router raises in the shape of its path."""
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(HTTPException, _http_exception)


async def _service_error(request: Request, error: Any) -> Response:
    request_id: str = request.state.request_id
    told = internal_error(request_id) if isinstance(error, InternalError) else error
    return _rendered(told, request)


async def _http_exception(request: Request, error: Any) -> Response:
    # Only the router raises these: 404 and 405.
    failure: ServiceError = (
        MethodNotAllowed("This route takes another method; see the Allow header.")
        if error.status_code == 405
        else NotFound("There is no such route. GET /openapi.json lists them.")
    )
    response = _rendered(failure, request)
    response.headers.update(error.headers or {})
    return response


def _rendered(error: ServiceError, request: Request) -> Response:
    answer: Render = request.state.render
    return answer(error, request.state.request_id)
