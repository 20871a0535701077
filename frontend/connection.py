"""One client's connection: uvicorn's, with bounds on a request's head and with refusals in the contract's shape.

uvicorn itself waits for a head without end, of any size, and answers what is no HTTP in plain text. The body's bounds
are `frontend.body`'s.
"""

import asyncio
import http
import logging
import uuid
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from frontend.context import ID_HEADERS
from frontend.errors import RequestTimeout, render
from preprocess.errors import InvalidRequest, RequestTooLarge, ServiceError

_log = logging.getLogger("frontend.access")

MAX_HEAD_BYTES = 64 * 1024


class Connection(HttpToolsProtocol):
    """A head that has not ended `head_timeout_s` after its first byte, or after the connection, is refused."""

    head_timeout_s: ClassVar[float]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None
        """Runs while a head is awaited."""
        self._head_bytes = 0
        self._between = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._between:
            # Not when a message begins: empty lines may stand before it, and would keep the connection for ever.
            self._await_head()
        self._head_bytes += len(data)
        super().data_received(data)
        if self._timer is not None and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(RequestTooLarge(f"The request's head has more than {MAX_HEAD_BYTES} bytes."))

    def on_message_begin(self) -> None:
        self._between = False
        self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._between = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn for what the parser does not take."""
        self._refuse(InvalidRequest("This is no HTTP/1.1 request."))

    def _await_head(self) -> None:
        if self._timer is None:
            self._head_bytes = 0
            self._timer = self.loop.call_later(self.head_timeout_s, self._late)

    def _end_head(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self._answers():
            self._await_head()
        elif self._head_bytes:
            self._refuse(RequestTimeout(f"The request's head did not arrive within {self.head_timeout_s:g} s."))
        else:
            self.transport.close()

    def _answers(self) -> bool:
        """Whether a request is being answered; more may have come behind it."""
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, error: ServiceError) -> None:
        self._end_head()
        if self.transport.is_closing():
            return
        # Inside of another answer it would be read as part of that.
        if not (self._answers() and self.cycle.response_started):
            request_id = uuid.uuid4().hex
            answer = render(error, request_id)
            headers = [*answer.raw_headers, *((name, request_id.encode()) for name in ID_HEADERS), _CLOSE]
            lines = [f"HTTP/1.1 {error.status} {http.HTTPStatus(error.status).phrase}".encode()]
            lines += [name + b": " + value for name, value in headers]
            self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
            _log.info("refused", extra={"fields": {"request_id": request_id, "status": error.status}})
        self.transport.close()


_CLOSE = (b"connection", b"close")


def connection(head_timeout_s: float) -> type[Connection]:
    """The class for uvicorn, with this bound."""
    return type("Connection", (Connection,), {"head_timeout_s": head_timeout_s})
