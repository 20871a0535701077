"""`POST /v1/systemone/batch`: several SystemOne requests in one body, each answered on its own.

The body is cut into its items as they were written, so that each is read, refused and answered as if it had come alone.
"""

import asyncio
import json
import re
import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from frontend.abandoned import unless_abandoned
from frontend.decision import Decision
from frontend.decisions import INLINE_BYTES, Decisions
from frontend.documents import BATCH_EXAMPLE, ERRORS, BatchAnswer, BatchError, ErrorBody
from frontend.errors import internal_error
from frontend.routes import PlainRoute
from frontend.settings import Settings
from preprocess.errors import InternalError, InvalidJson, InvalidRequest, ServiceError, ValidationFailed
from preprocess.strict_json import without_mark

_SPACE = re.compile(r"[ \t\r\n]*")


def split(body: bytes, max_items: int) -> list[bytes]:
    """The items of a JSON array, each byte for byte as it stands there.

    Raises InvalidJson (422) or InvalidRequest (400) where the items cannot be told apart, ValidationFailed (422) for
    none or too many.
    """
    try:
        text = without_mark(body).decode("utf-8")
        return [item.encode() for item in _items(text, max_items)]
    except UnicodeDecodeError:
        raise InvalidRequest("The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise InvalidJson.of(error) from None
    except RecursionError:
        raise ValidationFailed.at(["body"], "Nested too deep", "too_deep") from None


def _items(text: str, max_items: int) -> list[str]:
    position = _after_space(text, 0)
    if text[position : position + 1] != "[":
        raise InvalidRequest("The body is not a JSON array of requests.")
    position = _after_space(text, position + 1)
    if text[position : position + 1] == "]":
        raise ValidationFailed.at(["body"], "Input should not be empty", "too_short")
    items: list[str] = []
    while True:
        if len(items) == max_items:
            raise ValidationFailed.at(["body"], f"A batch may have {max_items} items, this one has more", "too_long")
        _, end = _SCANNER.raw_decode(text, position)
        items.append(text[position:end])
        position = _after_space(text, end)
        mark, position = text[position : position + 1], _after_space(text, position + 1)
        if mark == "]" and position == len(text):
            return items
        if mark != ",":
            raise json.JSONDecodeError("no array of items", text, end)


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _unread(_: str) -> None:
    # A number that no request may hold is its own item's fault.
    return None


_SCANNER = json.JSONDecoder(strict=False, parse_int=_unread, parse_float=_unread, parse_constant=_unread)


class Batches:
    """Decides items, as many at a time as the setting says, all within one request's time."""

    def __init__(self, settings: Settings, decisions: Decisions) -> None:
        self._settings = settings
        self._decisions = decisions

    async def read(self, request: Request) -> list[bytes]:
        """The request's items. Raises a ServiceError for what is wrong with all of them."""
        body = await self._decisions.read(request)
        if len(body) <= INLINE_BYTES:
            return split(body, self._settings.batch_max_items)
        return await asyncio.to_thread(split, body, self._settings.batch_max_items)

    async def decide(self, items: list[bytes], request: Request) -> list[Decision | ServiceError]:
        """What came of each item, in order. Raises PermissionDenied, RateLimited, before any is asked.

        A client that leaves ends them all with one ClientDisconnect.
        """
        await self._decisions.count(request, len(items))
        return await unless_abandoned(request, self._outcomes(items, request))

    async def _outcomes(self, items: list[bytes], request: Request) -> list[Decision | ServiceError]:
        request_id = request.state.request_id
        deadline = self._decisions.deadline()
        places = asyncio.Semaphore(self._settings.batch_concurrency)

        async def decided(item: bytes, item_id: str) -> Decision | ServiceError:
            try:
                async with places:
                    with self._decisions.place():
                        return await self._decisions.answer(item, request, request_id=item_id, deadline=deadline)
            except InternalError:
                return internal_error(item_id)
            except ServiceError as error:
                return error

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(decided(item, f"{request_id}.{index}")) for index, item in enumerate(items)]
        return [task.result() for task in tasks]


def rendered(outcome: Decision | ServiceError) -> bytes:
    """An item's JSON: its status before the answer or the detail that it would have had alone."""
    if isinstance(outcome, Decision):
        return b'{"status":200,' + outcome.response[1:]
    content = {"status": outcome.status, "detail": outcome.detail}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def router(settings: Settings, decisions: Decisions) -> APIRouter:
    routes = APIRouter(tags=["SystemOne"], route_class=PlainRoute)
    batches = Batches(settings, decisions)

    @routes.post("/v1/systemone/batch", summary="Decide several requests", **_document(settings))
    async def batch(request: Request) -> Response:
        # Each item is a decision, and how many there are is not known yet.
        async with decisions.admitted(request, "batch", decisions=0):
            items = await batches.read(request)
            outcomes = await batches.decide(items, request)
        headers = _headers(request, [outcome for outcome in outcomes if isinstance(outcome, Decision)], len(items))
        content = b"[" + b",".join(map(rendered, outcomes)) + b"]"
        return Response(content, headers=headers, media_type="application/json")

    return routes


def _headers(request: Request, decided: list[Decision], items: int) -> dict[str, str]:
    request.state.log.update(items=items, failed=items - len(decided))
    headers = {"server-timing": f"total;dur={(time.perf_counter() - request.state.started) * 1000:.3f}"}
    if decided:
        headers["x-model-revision"] = decided[0].model.revision
    return headers


def _document(settings: Settings) -> dict[str, Any]:
    schema = {
        "type": "array",
        "minItems": 1,
        "maxItems": settings.batch_max_items,
        "items": {"$ref": "#/components/schemas/Request"},
    }
    content = {"application/json": {"schema": schema, "example": BATCH_EXAMPLE}}
    return {
        "response_model": list[BatchAnswer | BatchError],
        "responses": {
            200: {"description": "Every item's answer or error, in the items' order."},
            403: {"model": ErrorBody, "description": "More items than the caller's rate ever has room for."},
            **ERRORS,
        },
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }
