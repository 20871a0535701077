"""What every dialect does with a request: admit its caller, read its body within limits, ask Triton within a deadline.

What a SystemOne body says is the preprocess step's to judge; here a multipart one is taken apart, and no more.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from starlette.requests import Request

from frontend.abandoned import unless_abandoned
from frontend.body import read_body
from frontend.decision import Decision
from frontend.health import Heartbeat
from frontend.keyring import KeyRing
from frontend.kserve import Parameter
from frontend.model_info import ModelInfo
from frontend.multipart import boundary_of, unpack
from frontend.rates import Rates
from frontend.settings import Settings
from frontend.tiers import Caller, Tier
from frontend.triton import Triton
from preprocess.errors import Overloaded
from preprocess.settings import Settings as RequestSettings

# Longer bodies are not unpacked in the event loop, where they would hold up every other request.
INLINE_BYTES = 64 * 1024


class Decisions:
    """One a process. Knows nothing of routes or envelopes."""

    def __init__(
        self,
        settings: Settings,
        triton: Triton,
        heartbeat: Heartbeat,
        keys: KeyRing,
        rates: Rates,
    ) -> None:
        self._settings = settings
        self._triton = triton
        self._heartbeat = heartbeat
        self._keys = keys
        self._rates = rates
        self._in_flight = 0
        self._known: tuple[ModelInfo, dict[Tier, RequestSettings]] | None = None

    @asynccontextmanager
    async def admitted(self, request: Request, dialect: str, decisions: int = 1) -> AsyncIterator[None]:
        """Know the caller, hold a place, and count `decisions` to the caller's rate, all before the body is read.

        Sets `request.state.caller`; `dialect` is the metrics' and the usage log's word for the route. Raises
        AuthenticationFailed, Overloaded, PermissionDenied, RateLimited.
        """
        log = request.state.log
        log["dialect"] = dialect
        address = request.client.host if request.client else None
        caller = self._keys.authenticate(request.headers.get("authorization"), address)
        request.state.caller = caller
        log["key"] = caller.key_name
        with self.place():
            if decisions:
                await self.count(request, decisions)
            yield

    async def count(self, request: Request, decisions: int) -> None:
        """Count decisions to the rate of the request's caller, all or none. Raises PermissionDenied, RateLimited."""
        await self._rates.take(request.state.caller, decisions)

    @contextmanager
    def place(self) -> Iterator[None]:
        """One of the places for what is read or computed at once. Raises Overloaded where none is free."""
        if self._in_flight >= self._settings.max_in_flight:
            raise Overloaded(f"{self._in_flight} requests are being answered, as many as are taken at once.")
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    @property
    def in_flight(self) -> int:
        """The places that are held."""
        return self._in_flight

    async def read(self, request: Request) -> bytes:
        """The request's body, unpacked, under the caller's limit. Raises Overloaded before the first answer."""
        limit = self._request_settings(request).max_body_bytes
        return await read_body(request, limit, self._settings.body_timeout_ms / 1000)

    async def read_request(self, request: Request) -> tuple[bytes, Sequence[bytes]]:
        """The request's SystemOne body for the ensemble, and the images that came as parts of a multipart one."""
        body = await self.read(request)
        boundary = boundary_of(request.headers.get("content-type", ""), body)
        if boundary is None:
            return body, ()
        if len(body) <= INLINE_BYTES:
            return unpack(body, boundary, self._request_settings(request))
        return await asyncio.to_thread(unpack, body, boundary, self._request_settings(request))

    async def decide(
        self,
        body: bytes,
        request: Request,
        *,
        parameters: Mapping[str, Parameter] | None = None,
        images: Sequence[bytes] = (),
    ) -> Decision:
        """The ensemble's answer to a SystemOne body that came with `request`. Raises a ServiceError.

        A client that leaves ends it with ClientDisconnect, and what the model had not begun is not computed.
        """
        answering = self.answer(
            body,
            request,
            request_id=request.state.request_id,
            deadline=self.deadline(),
            parameters=parameters,
            images=images,
        )
        return await unless_abandoned(request, answering)

    def deadline(self) -> float:
        """When the time that the setting gives a request ends, from now, in Unix seconds."""
        return time.time() + self._settings.request_timeout_ms / 1000

    async def answer(
        self,
        body: bytes,
        request: Request,
        *,
        request_id: str,
        deadline: float,
        parameters: Mapping[str, Parameter] | None = None,
        images: Sequence[bytes] = (),
    ) -> Decision:
        """As `decide`, for one of several bodies that came with `request`: whether its client stays is the caller's
        to watch. `deadline` is in Unix seconds.
        """
        with self._heartbeat.watching():
            decision = await self._triton.decide(
                body,
                request_id=request_id,
                deadline=deadline,
                parameters={**(parameters or {}), **_tier(request).parameters()},
                images=images,
                account=_account(request),
            )
        if not decision.cached:
            self._heartbeat.answered()
        request.state.decisions.append(decision)
        return decision

    def _request_settings(self, request: Request) -> RequestSettings:
        info = self._triton.info()
        if info is None:
            raise Overloaded("The model server is starting.")
        if self._known is None or self._known[0] is not info:
            self._known = (info, {})
        tier, known = _tier(request), self._known[1]
        if tier not in known:
            known[tier] = request_settings(info).overridden(tier.parameters())
        return known[tier]


def _tier(request: Request) -> Tier:
    """The caller's; what asks for no decision has none."""
    caller: Caller | None = request.state.caller
    return caller.tier if caller else Tier()


def _account(request: Request) -> str | None:
    """Whose kept answers it may have: a key's own, not those of an earlier one of its name."""
    caller: Caller | None = request.state.caller
    return (caller.key_hash or caller.account) if caller else None


def request_settings(info: ModelInfo) -> RequestSettings:
    """The preprocess step's settings as it told them: its limits bind here too, whatever this process' environment."""
    told: dict[str, Any] = {**info.settings, **info.limits}
    return RequestSettings.model_construct(
        release=Path(), model_name=info.name, model_aliases=info.aliases, **_known_fields(told)
    )


def _known_fields(told: Mapping[str, Any]) -> dict[str, Any]:
    taken = ("release", "model_name", "model_aliases")
    return {name: value for name, value in told.items() if name in RequestSettings.model_fields and name not in taken}
