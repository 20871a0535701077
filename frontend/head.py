"""HEAD wherever GET is answered, as a pure ASGI middleware: the same head, and no body (RFC 9110, 9.3.2)."""

from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """Answers HEAD as the app answers GET."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        # A copy: by its own the server knows that a body need not follow the Content-Length.
        asked = {**scope, "method": "GET"}
        try:
            await self.app(asked, receive, send_without_body)
        finally:
            scope["route"] = asked.get("route")


def document(paths: dict[str, Any]) -> None:
    """Add to OpenAPI's `paths` a HEAD beside each GET."""
    for operations in paths.values():
        if "get" in operations:
            get = operations["get"]
            responses = {
                status: {name: value for name, value in response.items() if name != "content"}
                for status, response in get["responses"].items()
            }
            operations["head"] = {**get, "operationId": f"{get['operationId']}_head", "responses": responses}
