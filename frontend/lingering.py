"""A clean end for a request that is answered before its body was read, in a pure ASGI middleware.

A refusal goes out at once. Closing the connection there would reset it under a client that still sends, which then
never reads the refusal; leaving it open would read an endless body for ever. So the rest is read and dropped for a
while, and then the connection is closed.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LINGER_S = 5.0


class LingeringClose:
    """Reads what a refused client still sends, for at most LINGER_S seconds, and closes the connection after it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _announces_body(scope):
            await self.app(scope, receive, send)
            return
        body = _Body(receive)

        async def send_then_linger(message: Message) -> None:
            if body.ended:
                await send(message)
            elif message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
                await send(message)
            elif message.get("more_body", False):
                await send(message)
            else:
                # All of the answer is out before the wait; only its end is held back.
                await send({**message, "more_body": True})
                await body.drop_rest()
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self.app(scope, body.receive, send_then_linger)


class _Body:
    """The receiving side, watched for its end."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.ended = False

    async def receive(self) -> Message:
        message = await self._receive()
        self.ended = message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message

    async def drop_rest(self) -> None:
        try:
            async with asyncio.timeout(LINGER_S):
                while not self.ended:
                    await self.receive()
        except TimeoutError:
            return


def _announces_body(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
