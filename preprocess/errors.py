"""The errors of the whole service: raised anywhere, carried through Triton as JSON, mapped to HTTP in one place.

The shapes are those of the HTTP contract: `{"error_type", "message"}` for every status but 422, whose detail is
a list of `{"loc", "msg", "type"}` as FastAPI writes it. An error never holds a value that a client sent. It may name
the keys on the way to one, shortened, so that a detail always fits in a Triton error text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

# Triton sends error text in gRPC trailers, which arrive at 9 kB and are lost at 20 kB; the contract promises 4 kB.
MAX_JSON_BYTES = 4_000
MAX_MESSAGE_CHARS = 500
MAX_LOC_ITEMS = 16
MAX_LOC_CHARS = 60

Loc = Sequence[str | int]
Detail = dict[str, Any] | list[dict[str, Any]]


class ServiceError(Exception):
    """What a client is told. `status` is the HTTP status, `detail` the value of `detail` in the response's JSON."""

    status: ClassVar[int] = 500
    error_type: str = "api_error"
    detail: Detail

    def __init__(self, message: str) -> None:
        message = shorten(message, MAX_MESSAGE_CHARS)
        super().__init__(message)
        self.detail = {"error_type": self.error_type, "message": message}

    def to_json(self) -> str:
        """`{"status", "detail"}`, at most 4,000 bytes of UTF-8."""
        return _dumps({"status": self.status, "detail": self.detail})

    @staticmethod
    def from_json(text: str) -> ServiceError:
        """The error that `to_json` wrote, whatever stands before it (Triton adds "in ensemble 'NAME', ").

        Text that holds no such error becomes an `InternalError` that repeats nothing of it.
        """
        try:
            value, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
            return _from_value(value)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return InternalError()


class InvalidRequest(ServiceError):
    """400: the body is not a request at all. `error_type="api_usage_error"`: it names a model that is not served."""

    status = 400
    error_type = "invalid_request_error"

    def __init__(self, message: str, error_type: str = "invalid_request_error") -> None:
        self.error_type = error_type
        super().__init__(message)


class RequestTooLarge(ServiceError):
    """413: the body, an image, its pixels or the tokens pass a limit; the message has the limit and the value."""

    status = 413
    error_type = "request_too_large"


class ValidationFailed(ServiceError):
    """422: issues as `{"loc", "msg", "type"}`. The first ones that fit are kept; a last item counts the others."""

    status = 422
    error_type = "validation_error"

    def __init__(self, issues: Iterable[dict[str, Any]]) -> None:
        self.detail = _bounded([_issue(item["loc"], item["msg"], item["type"]) for item in issues])
        Exception.__init__(self, "; ".join(f"{_dotted(item['loc'])}: {item['msg']}" for item in self.detail[:3]))

    @classmethod
    def at(cls, loc: Loc, message: str, kind: str) -> Self:
        """One issue. `kind` is its `type`."""
        return cls([{"loc": list(loc), "msg": message, "type": kind}])


class InvalidJson(ValidationFailed):
    """422, as FastAPI and TypeSafe's specification have it: the body does not parse as JSON. Other dialects say 400."""

    @classmethod
    def of(cls, error: json.JSONDecodeError) -> Self:
        """The parser's place, and nothing of what stands there."""
        message = f"The body is not JSON: line {error.lineno}, column {error.colno}"
        return cls.at(["body", error.pos], message, "json_invalid")


class Overloaded(ServiceError):
    """503: the queue is full, or the server is starting or gone."""

    status = 503
    error_type = "overloaded_error"


class DeadlineExceeded(ServiceError):
    """504: the request's deadline passed before its answer."""

    status = 504
    error_type = "timeout_error"


class InternalError(ServiceError):
    """500: ours to mend. The message tells nothing of the inside."""

    status = 500
    error_type = "api_error"

    def __init__(self, message: str = "The server failed to answer this request.") -> None:
        super().__init__(message)


_BY_STATUS: dict[int, type[ServiceError]] = {
    kind.status: kind for kind in (RequestTooLarge, Overloaded, DeadlineExceeded, InternalError)
}


def shorten(text: str, limit: int) -> str:
    """`text` in at most `limit` characters, and without lone surrogates, which no UTF-8 response can hold."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return text.encode("utf-8", "replace").decode("utf-8")


def _from_value(value: dict[str, Any]) -> ServiceError:
    status, detail = value["status"], value["detail"]
    if status == ValidationFailed.status:
        return ValidationFailed(detail)
    message = str(detail["message"])
    if status == InvalidRequest.status:
        return InvalidRequest(message, str(detail["error_type"]))
    return _BY_STATUS[status](message)


def _issue(loc: Loc, message: str, kind: str) -> dict[str, Any]:
    items = [shorten(item, MAX_LOC_CHARS) if isinstance(item, str) else item for item in loc]
    if len(items) > MAX_LOC_ITEMS:
        items = [*items[: MAX_LOC_ITEMS - 1], "…"]
    return {"loc": items, "msg": shorten(message, MAX_MESSAGE_CHARS), "type": kind}


def _bounded(issues: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # Room for {"status": …, "detail": […]} and for the item that counts the rest.
    room = MAX_JSON_BYTES - 150
    for kept, issue in enumerate(issues):
        room -= len(_dumps(issue).encode()) + 1
        if room < 0:
            rest = {"loc": ["body"], "msg": f"and {len(issues) - kept} more", "type": "more"}
            return [*issues[:kept], rest]
    return issues


def _dotted(loc: Loc) -> str:
    return ".".join(str(item) for item in loc)


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
