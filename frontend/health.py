"""The truth about readiness: an answer that came lately, or every step alive under a load that lets none come.

Triton's own ready endpoints stay at 200 when a step's process has died, so the only proof is an answer. A real one
counts; where none came for a while, the heartbeat asks a small question itself. While others wait with it, be they this
frontend's or another's, the device may be busy for longer than that question may take: then each step is asked by
itself, which takes no device, and the model step says how many wait. And whatever waits, what the ensemble answered to
others meanwhile is an answer as well.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from frontend.documents import HealthReport
from frontend.settings import Settings, fingerprint
from frontend.triton import HEARTBEAT, Triton
from preprocess.errors import InternalError, Overloaded, ServiceError

_log = logging.getLogger(__name__)

PROBE_BODY = b'{"state":"heartbeat","questions":{"alive":{"type":"noul"}}}'
_RETRY_S = 0.5
# Of a heartbeat's time: how long it waits for its answer before it asks the steps, and between two such looks.
_LOOK = 1 / 6
# Times of one request for which living steps may go without an answer: a micro-batch that was begun within a request's
# time is computed to its end, though nobody waits for it any more, and on a CPU one of a large picture takes a minute.
_PATIENCE = 4


class Heartbeat:
    """Asks Triton when nobody else does; `ready` is whether answers come. Times of `time.monotonic`, in seconds."""

    def __init__(self, settings: Settings, triton: Triton) -> None:
        self._interval = settings.health_interval_ms / 1000
        self._timeout = settings.health_timeout_ms / 1000
        self._patience = _PATIENCE * settings.request_timeout_ms / 1000
        self._triton = triton
        self._waiting = 0
        self._answered = float("-inf")
        self._proof = float("-inf")
        self._due = float("-inf")
        self._asked = float("-inf")
        self._up = False
        self._wake = asyncio.Event()

    @property
    def ready(self) -> bool:
        """An answer came, nothing failed since, and the latest proof is not older than a heartbeat may take."""
        return self._up and time.monotonic() - self._proof <= self._interval + self._timeout + _RETRY_S

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Around a real request while Triton has it: learns of its failure, and `answered` is told of its answer."""
        self._waiting += 1
        try:
            yield
        except ServiceError as error:
            if error.status >= 500:
                self.failed()
            raise
        finally:
            self._waiting -= 1

    def answered(self) -> None:
        """A real answer came, one that the steps have made; a kept one proves nothing of them."""
        self._proof = self._answered = time.monotonic()
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
        since = self._asked = time.monotonic()
        asking = asyncio.create_task(self._failure())
        before: int | None = None
        try:
            await asyncio.wait((asking,), timeout=self._timeout * _LOOK)
            if self._up and _slow(asking):
                before = await self._answers()
            while self._may_be_load() and _slow(asking):
                began, since = since, time.monotonic()
                async with asyncio.timeout(self._timeout * (1 - _LOOK)):
                    others = await self._ask_steps()
                if not (others or self._waiting):
                    since = began
                    break
                self._proof = time.monotonic()
                if asking.done():
                    break
                await asyncio.wait((asking,), timeout=self._timeout * _LOOK)
            if failure := await asking:
                raise failure
            self.answered()
        except (ServiceError, TimeoutError) as error:
            # Slow or refused is what load looks like, and a proof meanwhile shows that it is only that. A failure of
            # the inside is none of load's.
            if isinstance(error, InternalError) or not (self._proof >= since or await self._more_than(before)):
                self._set(False)
            self._due = time.monotonic() + _RETRY_S
        finally:
            asking.cancel()

    def _may_be_load(self) -> bool:
        """Whether a late answer is believed to be load's, where others wait too: for the time of some requests.

        What is down comes up by an answer alone.
        """
        return self._up and time.monotonic() - self._answered <= self._patience

    async def _more_than(self, before: int | None) -> bool:
        """Whether the ensemble has answered more requests than so many; that is as good as an answer of its own."""
        now = None if before is None else await self._answers()
        if before is None or now is None or now <= before:
            return False
        self.answered()
        return True

    async def _answers(self) -> int | None:
        with contextlib.suppress(ServiceError):
            return await self._triton.answers(self._timeout)
        return None

    async def _failure(self) -> ServiceError | TimeoutError | None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._ask_server()
                await self._triton.decide(PROBE_BODY, request_id=HEARTBEAT, deadline=time.time() + self._timeout)
        except (ServiceError, TimeoutError) as error:
            return error
        return None

    async def _ask_steps(self) -> int:
        await self._ask_server()
        return await self._triton.ask_steps(PROBE_BODY, request_id=HEARTBEAT, timeout_s=self._timeout)

    async def _ask_server(self) -> None:
        if not await self._triton.ready(self._timeout):
            raise Overloaded("Triton is not ready")

    def _set(self, up: bool) -> None:
        if up != self._up:
            self._up = up
            _log.log(logging.INFO if up else logging.WARNING, "ready" if up else "not ready")


def _slow(asking: asyncio.Task[ServiceError | TimeoutError | None]) -> bool:
    """Whether a question has no answer yet, or was refused by what may be load."""
    return not asking.done() or not (asking.result() is None or isinstance(asking.result(), InternalError))


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
    responses: dict[int | str, dict[str, Any]] = {503: {"model": HealthReport, "description": "No proof came lately."}}

    @routes.get("/health", response_model=HealthReport, responses=responses, summary="Whether answers come")
    @routes.get("/healthz", response_model=HealthReport, responses=responses, summary="The same as /health")
    async def health() -> JSONResponse:
        return JSONResponse(report(settings, triton, heartbeat), 200 if heartbeat.ready else 503)

    return routes
