"""One client's connection: uvicorn's, with bounds on a request's head and with refusals in the contract's shape.

uvicorn itself waits for a head without end, of any size, keeps trailers without end, takes them for headers, loses the
body behind an offer to upgrade, answers what is no HTTP in plain text, and does not tell a request that its client has
left where another came behind it. The body's bounds are `frontend.body`'s.
"""

import asyncio
import http
import logging
import uuid
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

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
        """Since a head was awaited, or since the body went on: trailers and what stands between chunks are no body."""
        self._between = True
        self._in_head = False
        self._running: RequestResponseCycle | None = None
        """The request that is being answered; `cycle` is the one that came last."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def data_received(self, data: bytes) -> None:
        if self._between:
            # Not when a message begins: empty lines may stand before it, and would keep the connection for ever.
            self._await_head()
        self._head_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self._read(data)
        except httptools.HttpParserError:
            self._refuse(InvalidRequest("This is no HTTP/1.1 request."))
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(RequestTooLarge(f"The request's head or trailers have more than {MAX_HEAD_BYTES} bytes."))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_begin(self) -> None:
        self._between = False
        self._in_head = True
        self._await_head()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # A trailer is no header: an edge that sets a client's address, say, did not see it among them.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._end_head()
        if not self._offers():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._between = True
        if not self._offers():
            super().on_message_complete()

    def _read(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as offer:
                rest = rest[offer.args[0] :]
                self._decline()

    def _offers(self) -> bool:
        """Whether the head offers to go on in another protocol, as Java's client does at first.

        The parser reads no body behind such a head.
        """
        return bool(self.parser.should_upgrade()) and self.parser.get_method() != b"CONNECT"

    def _decline(self) -> None:
        """Read the head once more, without its offer: what follows is HTTP/1.1 still (RFC 9110, 7.8)."""
        words = self.parser.get_method(), self.url, b"HTTP/" + self.parser.get_http_version().encode()
        lines = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
        self.parser.feed_data(b"\r\n".join([b" ".join(words), *lines, b"", b""]))

    def _await_head(self) -> None:
        if self._timer is None:
            self._head_bytes = 0
            self._timer = self.loop.call_later(self.head_timeout_s, self._late)

    def _end_head(self) -> None:
        self._head_bytes = 0
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

    def _owes(self) -> bool:
        """Whether an answer is due, or has begun, that is not about what arrives now."""
        if self.pipeline:
            return True
        return self._answers() and (self.cycle.response_started or not self.cycle.more_body)

    def _refuse(self, error: ServiceError) -> None:
        self._end_head()
        if self.transport.is_closing():
            return
        # Before the answer to an earlier request, or inside of one, it would be read as that.
        if not self._owes():
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
