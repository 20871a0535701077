"""What the dialects share that put SystemOne's requests, answers and errors into words of their own."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from starlette.responses import Response

from frontend.decisions import INLINE_BYTES
from frontend.errors import headers_of
from frontend.model_info import ModelInfo
from frontend.triton import Triton
from preprocess.errors import InvalidJson, InvalidRequest, Overloaded, ServiceError, ValidationFailed
from preprocess.strict_json import parse_json

T = TypeVar("T")
Loc = list[str | int]


async def translated(body: bytes, translate: Callable[[dict[str, Any]], T]) -> T:
    """What `translate` makes of the JSON object in the body.

    Raises InvalidRequest (400) where there is none, ValidationFailed (422), and what `translate` raises.
    """
    if len(body) <= INLINE_BYTES:
        return translate(json_object(body))
    # A long body would hold up every other request.
    return await asyncio.to_thread(lambda: translate(json_object(body)))


def json_object(body: bytes) -> dict[str, Any]:
    """The object in the body, read as strictly as SystemOne's own requests are."""
    try:
        value = parse_json(body)
    except InvalidJson as error:
        raise InvalidRequest(f"{text_of(error, place=lambda _: '')}.") from None
    if not isinstance(value, dict):
        raise InvalidRequest("The body is not a JSON object.")
    return value


def dumps(value: Any) -> bytes:
    """Compact UTF-8; numbers are written as the ensemble will read them, keys keep their order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def dotted(loc: Loc) -> str:
    """`questions.q.choice.criteria`; nothing for the body as a whole."""
    return ".".join(str(item) for item in loc if item != "body")


def text_of(error: ServiceError, place: Callable[[Loc], str] = dotted) -> str:
    """An error in one line. A validation error names its places; its last item counts those that were left out.

    Never longer than the error's own JSON, which is bounded.
    """
    if isinstance(error.detail, dict):
        return str(error.detail["message"])
    return "; ".join(": ".join(filter(None, (place(issue["loc"]), issue["msg"]))) for issue in error.detail)


def moved(error: ValidationFailed, move: Callable[[Loc], Loc]) -> ValidationFailed:
    """The same issues at the places where the client's own request has them."""
    return ValidationFailed([issue | {"loc": move(issue["loc"])} for issue in error.detail if isinstance(issue, dict)])


def error_response(
    error: ServiceError, content: Any, *, status: int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """An error's answer: `content` as JSON, and what every dialect says in headers."""
    all_headers = {**headers_of(error), **(headers or {})}
    return Response(dumps(content), status or error.status, all_headers, media_type="application/json")


def served(triton: Triton) -> ModelInfo:
    """The model that answers. Raises Overloaded before the first answer."""
    info = triton.info()
    if info is None:
        raise Overloaded("The model server is starting.")
    return info
