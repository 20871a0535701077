"""What every request has, in a pure ASGI middleware: an id, one line in the access log, an answer to any failure."""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from frontend.decision import Decision
from frontend.errors import Render, internal_error
from frontend.triton import HEARTBEAT

_log = logging.getLogger("frontend.access")
_errors = logging.getLogger("frontend.errors")

CLIENT_GONE = 499  # nginx's word for a client that left before its answer

ID_HEADERS = (b"x-request-id", b"x-typesafe-request-id")
# The heartbeat's own is nobody else's: the steps neither log nor count what bears it.
# What watchers ask every second; their good answers would be most of an idle server's log.
_PROBED = frozenset(("/health", "/healthz", "/metrics"))
_SANE_ID = re.compile(rb"(?!%s$)[A-Za-z0-9._-]{1,128}" % HEARTBEAT.encode())


class RequestContext:
    """Sets `request.state`: `request_id`, `started` (of `time.perf_counter`), `log` (fields of the access line),
    `render` (the envelope of the path's errors), `caller`, None until somebody asks, and `decisions`, what Triton
    answered for it. At the end `finished` is told the fields, to which it may add, and the decisions.
    """

    def __init__(
        self,
        app: ASGIApp,
        render_for: Callable[[str], Render],
        finished: Callable[[dict[str, Any], Sequence[Decision]], None],
    ) -> None:
        self.app = app
        self._render_for = render_for
        self._finished = finished

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        fields: dict[str, Any] = {"request_id": request_id, "method": scope["method"], "route": None, "status": None}
        started = time.perf_counter()
        # A dict of its own: a server may share one between requests.
        state = scope["state"] = {
            **scope.get("state", {}),
            "request_id": request_id,
            "started": started,
            "log": fields,
            "render": self._render_for(scope["path"]),
            "caller": None,
            "decisions": [],
        }
        id_headers = [(name, request_id.encode()) for name in ID_HEADERS]

        async def send_with_ids(message: Message) -> None:
            if message["type"] == "http.response.start":
                fields["status"] = message["status"]
                message["headers"] = [*message.get("headers", ()), *id_headers]
            await send(message)

        try:
            await self.app(scope, receive, send_with_ids)
        except ClientDisconnect:
            fields["status"] = CLIENT_GONE
        except Exception:
            _errors.exception("request failed", extra={"fields": {"request_id": request_id}})
            if fields["status"] is not None:
                raise
            await state["render"](internal_error(request_id), request_id)(scope, receive, send_with_ids)
        finally:
            fields["ms"] = round((time.perf_counter() - started) * 1000, 3)
            # The template, not the path: a path may hold what a client typed.
            fields["route"] = getattr(scope.get("route"), "path", None)
            try:
                # The event loop writes when its tasks have had their turn: the answer goes out before the books.
                await asyncio.sleep(0)
            finally:
                try:
                    self._finished(fields, state["decisions"])
                finally:
                    level = logging.DEBUG if _is_good_probe(fields) else logging.INFO
                    _log.log(level, "request", extra={"fields": fields})


def _is_good_probe(fields: Mapping[str, Any]) -> bool:
    return fields["route"] in _PROBED and fields["status"] == 200


def _request_id(scope: Scope) -> str:
    sent: dict[bytes, bytes] = {name: value for name, value in scope["headers"] if name in ID_HEADERS}
    for name in ID_HEADERS:
        if name in sent and _SANE_ID.fullmatch(sent[name]):
            return sent[name].decode("ascii")
    return uuid.uuid4().hex
