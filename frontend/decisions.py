"""What every dialect does once it has a SystemOne body: admit it, refuse it early, ask Triton within a deadline."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.requests import Request

from frontend.body import read_body
from frontend.health import Heartbeat
from frontend.kserve import Parameter
from frontend.model_info import ModelInfo
from frontend.multipart import boundary_of, unpack
from frontend.settings import Settings
from frontend.triton import Decision, Triton
from preprocess.errors import Overloaded, ServiceError
from preprocess.schema import parse_request
from preprocess.settings import Settings as RequestSettings

# Longer bodies are not parsed in the event loop, where they would hold up every other request.
EARLY_BYTES = 64 * 1024


class Decisions:
    """One a process. Knows nothing of routes or envelopes."""

    def __init__(self, settings: Settings, triton: Triton, heartbeat: Heartbeat) -> None:
        self._settings = settings
        self._triton = triton
        self._heartbeat = heartbeat
        self._in_flight = 0
        self._known: tuple[ModelInfo, RequestSettings] | None = None

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Hold one of the places for requests, from before the body is read. Raises Overloaded where none is free."""
        if self._in_flight >= self._settings.max_in_flight:
            raise Overloaded(f"{self._in_flight} requests are being answered, as many as are taken at once.")
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    async def read(self, request: Request) -> bytes:
        """The request's body, unpacked, under the ensemble's own limit. Raises Overloaded before the first answer."""
        limit = self._request_settings().max_body_bytes
        return await read_body(request, limit, self._settings.body_timeout_ms / 1000)

    async def read_request(self, request: Request) -> tuple[bytes, Sequence[bytes]]:
        """The request's SystemOne body for the ensemble, and the images that came as parts of a multipart one."""
        body = await self.read(request)
        boundary = boundary_of(request.headers.get("content-type", ""), body)
        if boundary is None:
            return body, ()
        if len(body) <= EARLY_BYTES:
            return unpack(body, boundary, self._request_settings())
        return await asyncio.to_thread(unpack, body, boundary, self._request_settings())

    async def decide(
        self,
        body: bytes,
        *,
        request_id: str,
        parameters: Mapping[str, Parameter] | None = None,
        images: Sequence[bytes] = (),
        deadline: float | None = None,
    ) -> Decision:
        """The ensemble's answer to a SystemOne body. Raises a ServiceError.

        `deadline` is in Unix seconds; without one the time that the setting gives a request begins here.
        """
        # The preprocess step refuses the rest, with the same words.
        if len(body) <= EARLY_BYTES:
            parse_request(body, self._request_settings())
        if deadline is None:
            deadline = time.time() + self._settings.request_timeout_ms / 1000
        try:
            decision = await self._triton.decide(
                body, request_id=request_id, deadline=deadline, parameters=parameters, images=images
            )
        except ServiceError as error:
            if error.status >= 500:
                self._heartbeat.failed()
            raise
        self._heartbeat.answered()
        return decision

    def _request_settings(self) -> RequestSettings:
        info = self._triton.info()
        if info is None:
            raise Overloaded("The model server is starting.")
        if self._known is None or self._known[0] is not info:
            self._known = (info, request_settings(info))
        return self._known[1]


def request_settings(info: ModelInfo) -> RequestSettings:
    """The preprocess step's settings as it told them: its limits bind here too, whatever this process' environment."""
    told: dict[str, Any] = {**info.settings, **info.limits}
    return RequestSettings.model_construct(
        release=Path(), model_name=info.name, model_aliases=info.aliases, **_known_fields(told)
    )


def _known_fields(told: Mapping[str, Any]) -> dict[str, Any]:
    taken = ("release", "model_name", "model_aliases")
    return {name: value for name, value in told.items() if name in RequestSettings.model_fields and name not in taken}
