"""The one connection to Triton: the ensembles `clef` and `clef_cached` over gRPC, asynchronously.

A call of the ensemble is never cancelled, for Triton 2.51 may end with a segmentation fault where a cancellation meets
the answer, and cancels nothing in the steps anyway. A client that leaves and a deadline that passes end the waiting for
it; the steps drop the request by its token and its deadline, and so the call ends.
"""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2, service_pb2_grpc

from frontend import kserve
from frontend.decision import Decision
from frontend.kserve import CACHED, ENSEMBLE, BadResponse, Parameter
from frontend.model_info import ModelInfo
from frontend.response_cache import CacheKeys
from preprocess.errors import DeadlineExceeded, InternalError

_log = logging.getLogger(__name__)

_CHANNEL_OPTIONS = [
    # Bodies are bounded before they get here, by the limit that the ensemble itself states.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # Triton that comes back is found within a second, not after gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A peer that vanished without a word is noticed. Pings stay rarer than the heartbeat's own traffic: Triton closes
    # connections that ping more than twice in five minutes with nothing else to say.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 2),
]

_CANCEL_TIMEOUT_S = 5.0
# From a request's deadline, at which its client is told, to the end of its call: only a step that hangs takes as long.
_GRACE_S = 60.0
# The id of what no client asked; the steps know it too.
HEARTBEAT = "heartbeat"


class Triton(Protocol):
    """What the app needs of Triton; `TritonClient` is the real one."""

    async def start(self) -> None:
        """Open the connection, inside the running event loop. Does not wait for a server."""

    async def close(self) -> None:
        """Close the connection; calls that still run fail."""

    async def ready(self, timeout_s: float) -> bool:
        """Whether the server and the ensemble say that they are ready."""

    def info(self) -> ModelInfo | None:
        """The model of the latest decision; None before the first one."""

    async def decide(
        self,
        body: bytes,
        *,
        request_id: str,
        deadline: float,
        parameters: Mapping[str, Parameter] | None = None,
        images: Sequence[bytes] = (),
        account: str | None = None,
    ) -> Decision:
        """Ask the ensemble. `deadline` is in Unix seconds and travels as the parameter `deadline_ms`.

        Where Triton keeps responses, an `account` may get its answer to the same again; without one, it is computed.

        Raises the ServiceError that a step named, Overloaded where no server can be reached, DeadlineExceeded, and
        InternalError for every other failure, whose cause is in the log under the request's id.
        """

    async def answers(self, timeout_s: float) -> int:
        """How many requests the steps have answered well since they started, whoever's they were.

        Raises what `decide` does.
        """

    async def ask_steps(self, body: bytes, *, request_id: str, timeout_s: float) -> int:
        """Ask each step by itself, the model step for nothing that it computes, so that a step which lives answers
        however much waits for the device. `body` is a request as for `decide`, and each step has `timeout_s`.

        Returns how many requests are with the model step, whoever's they are; heartbeats are not counted. Raises what
        `decide` does.
        """


class TritonClient:
    """Triton over one shared HTTP/2 connection. `url` is host:port of its gRPC endpoint."""

    def __init__(self, url: str, interceptors: Sequence[grpc.aio.ClientInterceptor] = ()) -> None:
        self._url = url
        self._interceptors = interceptors
        self._info: ModelInfo | None = None
        self._cache_keys = CacheKeys()
        self._channel: grpc.aio.Channel | None = None
        self._left: set[asyncio.Future[Any]] = set()
        """Calls that nobody waits for."""

    async def start(self) -> None:
        self._channel = grpc.aio.insecure_channel(self._url, options=_CHANNEL_OPTIONS, interceptors=self._interceptors)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def ready(self, timeout_s: float) -> bool:
        try:
            server = await self._stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=timeout_s)
            model = await self._stub.ModelReady(service_pb2.ModelReadyRequest(name=ENSEMBLE), timeout=timeout_s)
        except grpc.aio.AioRpcError:
            return False
        return bool(server.ready and model.ready)

    def info(self) -> ModelInfo | None:
        return self._info

    async def decide(
        self,
        body: bytes,
        *,
        request_id: str,
        deadline: float,
        parameters: Mapping[str, Parameter] | None = None,
        images: Sequence[bytes] = (),
        account: str | None = None,
    ) -> Decision:
        told = parameters or {}
        cache_key = await self._cache_key(account, told, body, images)
        left_s = deadline - time.time()
        if left_s <= 0:
            raise DeadlineExceeded("the deadline passed before the model was asked")
        # Not the request's id, which a client may have chosen, and chosen twice.
        token = uuid.uuid4().hex
        ours: dict[str, Parameter] = {"deadline_ms": int(deadline * 1000), "cancel_token": token}
        message = kserve.infer_request(body, images, request_id, {**told, **ours}, cache_key)
        call = asyncio.create_task(self._infer(message, left_s + _GRACE_S))
        try:
            with _failures_told(request_id):
                if not (await asyncio.wait((call,), timeout=left_s))[0]:
                    raise DeadlineExceeded("the deadline passed before the answer came")
                decision = kserve.read_response(call.result(), self._model, token if cache_key else None)
                if not decision.cached:
                    # A Triton that came back with another release is never misnamed.
                    self._info = decision.model
                return decision
        except asyncio.CancelledError:
            self._leave(asyncio.create_task(self._infer(kserve.cancel_request(token), _CANCEL_TIMEOUT_S)))
            raise
        finally:
            self._leave(call)

    async def answers(self, timeout_s: float) -> int:
        with _failures_told(HEARTBEAT):
            told = await self._stub.ModelStatistics(service_pb2.ModelStatisticsRequest(), timeout=timeout_s)
            ours = [each.inference_stats for each in told.model_stats if each.name in (ENSEMBLE, CACHED)]
            return sum(stats.success.count - stats.cache_hit.count for stats in ours)

    async def ask_steps(self, body: bytes, *, request_id: str, timeout_s: float) -> int:
        with _failures_told(request_id):
            # Nobody's token: the model step answers at once.
            told = await self._stub.ModelInfer(kserve.cancel_request(uuid.uuid4().hex), timeout=timeout_s)
            first = await self._stub.ModelInfer(kserve.preprocess_request(body, request_id), timeout=timeout_s)
            await self._stub.ModelInfer(kserve.postprocess_request(first, request_id), timeout=timeout_s)
            return kserve.requests_held(told)

    async def _infer(self, message: service_pb2.ModelInferRequest, timeout_s: float) -> service_pb2.ModelInferResponse:
        return await self._stub.ModelInfer(message, timeout=timeout_s)

    def _leave(self, call: asyncio.Task[service_pb2.ModelInferResponse]) -> None:
        """Let a call end by itself. Where it fails nobody is to be told: what it was for has its answer, or is gone."""
        if not call.done():
            self._left.add(call)
            call.add_done_callback(self._ended)

    def _ended(self, call: asyncio.Task[service_pb2.ModelInferResponse]) -> None:
        self._left.discard(call)
        if not call.cancelled():
            call.exception()

    def _model(self, raw: bytes) -> ModelInfo:
        return self._info if self._info is not None and self._info.raw == raw else ModelInfo.parse(raw)

    async def _cache_key(
        self, account: str | None, parameters: Mapping[str, Parameter], body: bytes, images: Sequence[bytes]
    ) -> bytes | None:
        """None where nothing is kept."""
        if account is None or self._info is None or not self._info.settings.get("response_cache_bytes"):
            return None
        return await self._cache_keys.key(account, self._info.raw, parameters, body, images)


@contextlib.contextmanager
def _failures_told(request_id: str) -> Iterator[None]:
    """Raises a call's failure as the ServiceError that it is to a client; what is not a client's goes to the log."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        code, text = error.code().name, error.details() or ""
        failure = kserve.service_error(code, text)
        if failure.status >= 500:
            _log.warning("triton", extra={"fields": {"request_id": request_id, "grpc": code, "details": text[:2000]}})
        raise failure from error
    except (BadResponse, ValueError) as error:
        _log.error("triton", extra={"fields": {"request_id": request_id, "details": str(error)}})
        raise InternalError() from error
