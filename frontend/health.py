"""The truth about readiness: an answer that came lately.

Triton's own ready endpoints stay at 200 when a step's process has died, so the only proof is an answer. A real one
counts; where none came for a while, the heartbeat asks a small question itself.
"""

import asyncio
import logging
import time
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from frontend.documents import HealthReport
from frontend.settings import Settings, fingerprint
from frontend.triton import Triton
from preprocess.errors import InternalError, Overloaded, ServiceError

_log = logging.getLogger(__name__)

PROBE_BODY = b'{"state":"heartbeat","questions":{"alive":{"type":"noul"}}}'
_RETRY_S = 0.5


class Heartbeat:
    """Asks Triton when nobody else does; `ready` is whether answers come. Times of `time.monotonic`, in seconds."""

    def __init__(self, settings: Settings, triton: Triton) -> None:
        self._interval = settings.health_interval_ms / 1000
        self._timeout = settings.health_timeout_ms / 1000
        self._triton = triton
        self._proof = float("-inf")
        self._due = float("-inf")
        self._asked = float("-inf")
        self._up = False
        self._wake = asyncio.Event()

    @property
    def ready(self) -> bool:
        """An answer came, nothing failed since, and the answer is not older than a heartbeat may take."""
        return self._up and time.monotonic() - self._proof <= self._interval + self._timeout + _RETRY_S

    def answered(self) -> None:
        """A real answer came."""
        self._proof = time.monotonic()
        self._due = self._proof + self._interval
        self._set(True)

    def failed(self) -> None:
        """A request failed by no fault of its client: find out at once whether that is the rule."""
        self._due = min(self._due, max(time.monotonic(), self._asked + _RETRY_S))
        self._wake.set()

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            while (wait := self._due - time.monotonic()) > 0:
                self._wake.clear()
                try:
                    async with asyncio.timeout(wait):
                        await self._wake.wait()
                except TimeoutError:
                    continue
            await self.beat()

    async def beat(self) -> None:
        """Ask once."""
        began = self._asked = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout):
                if not await self._triton.ready(self._timeout):
                    raise Overloaded("Triton is not ready")
                await self._triton.decide(PROBE_BODY, request_id="heartbeat", deadline=time.time() + self._timeout)
            self.answered()
        except (ServiceError, TimeoutError) as error:
            # Slow or refused is what load looks like, and a real answer meanwhile shows that it is only that. A
            # failure of the inside is none of load's.
            if isinstance(error, InternalError) or self._proof < began:
                self._set(False)
            self._due = time.monotonic() + _RETRY_S

    def _set(self, up: bool) -> None:
        if up != self._up:
            self._up = up
            _log.log(logging.INFO if up else logging.WARNING, "ready" if up else "not ready")


def report(settings: Settings, triton: Triton, heartbeat: Heartbeat) -> dict[str, Any]:
    """The body of `GET /health`."""
    info = triton.info()
    return {
        "status": "ready" if heartbeat.ready else "unavailable",
        "model": info.name if info else None,
        "revision": info.revision if info else None,
        "fingerprint": fingerprint(settings.public(), info.settings if info else {}, info.limits if info else {}),
    }


def router(settings: Settings, triton: Triton, heartbeat: Heartbeat) -> APIRouter:
    routes = APIRouter(tags=["Service"])
    responses: dict[int | str, dict[str, Any]] = {503: {"model": HealthReport, "description": "No answer came lately."}}

    @routes.get("/health", response_model=HealthReport, responses=responses, summary="Whether answers come")
    @routes.get("/healthz", response_model=HealthReport, responses=responses, summary="The same as /health")
    async def health() -> JSONResponse:
        return JSONResponse(report(settings, triton, heartbeat), 200 if heartbeat.ready else 503)

    return routes
