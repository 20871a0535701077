"""Traces over OTLP, where `requirements/tracing.txt` is installed and OpenTelemetry's own variables name a collector.

A span holds ids, counts and times: no path or query as a client typed it, no header, no key, no text of an error.
FastAPI's own telemetry tells path and query, so the app has it switched off.

The times of Triton's steps come with each answer, as durations. Where a step began between a call and its answer is not
known, so the rest of the call's time is shared out evenly between them, and their spans say `clef.start_estimated`.
Triton's own spans, which `tritonserver --trace-config` switches on, join the trace by the `traceparent` of the call.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from time import time_ns
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, get_current_span, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from frontend.decision import Decision
from frontend.kserve import ENSEMBLE, MODEL, POSTPROCESS, PREPROCESS
from frontend.triton import TritonClient
from preprocess.errors import ServiceError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_log = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN = "http/protobuf"
# For the last spans of a process that ends, whatever its collector does.
_LAST_SPANS_S = 5.0
# Asked every few seconds by whoever watches, and no work of the model's.
_UNTRACED = {"/health", "/healthz", "/metrics"}
_CONTEXT_HEADERS = {b"traceparent", b"tracestate"}
# Of the fields of a request's access line.
_TOLD = ("request_id", "dialect", "model", "questions", "images", "tokens", "cached", "batch_size", "items", "failed")
_W3C = TraceContextTextMapPropagator()


class Tracing:
    """Where the spans of one process go."""

    def __init__(self, provider: "TracerProvider") -> None:
        self._provider = provider
        self.tracer = provider.get_tracer("clef-triton")

    async def close(self) -> None:
        """Sends what is left. Takes five seconds at most."""
        # A daemon, since the provider waits for half a minute for a collector that does not answer.
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, _LAST_SPANS_S)


def from_environment(version: str) -> Tracing | None:
    """By OpenTelemetry's own variables; None where they name no collector, or switch traces off.

    Traces that are asked for and cannot be had are a line in the log: no service stays down for want of them.
    """
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "otlp")
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if not _first(_ENDPOINTS) or disabled or exporter == "none":
        return None
    protocol = _first(_PROTOCOLS) or _SPOKEN
    if exporter != "otlp" or protocol != _SPOKEN:
        _log.warning("no traces: OTLP over %s is what is spoken here, not %s over %s", _SPOKEN, exporter, protocol)
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        _log.warning("no traces: they need pip install -r requirements/tracing.txt")
        return None
    named = {"service.name": "clef-frontend", "service.version": version, **OTELResourceDetector().detect().attributes}
    try:
        provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except ValueError as error:
        _log.warning("no traces: a variable of OpenTelemetry's is wrong: %s", error)
        return None
    return Tracing(provider)


def _first(names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := os.environ.get(name))), "")


class TracedRequests:
    """A span for each request, the child of its `traceparent`. Goes around RequestContext, whose fields it tells."""

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        self.app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _UNTRACED:
            await self.app(scope, receive, send)
            return
        answered: int | None = None

        async def send_seen(message: Message) -> None:
            nonlocal answered
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                answered = time_ns()

        carrier = {
            name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _CONTEXT_HEADERS
        }
        method = scope["method"]
        span = self._tracer.start_span(
            method, _W3C.extract(carrier), kind=SpanKind.SERVER, attributes={"http.request.method": method}
        )
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                await self.app(scope, receive, send_seen)
        finally:
            _tell_request(span, scope["state"]["log"])
            span.end(answered)


def _tell_request(span: Span, fields: dict[str, Any]) -> None:
    span.set_attributes({f"systemone.{name}": fields[name] for name in _TOLD if fields.get(name) is not None})
    if route := fields["route"]:
        span.update_name(f"{fields['method']} {route}")
        span.set_attribute("http.route", route)
    status = fields["status"]
    if status is not None:
        span.set_attribute("http.response.status_code", status)
    if status is None or status >= 500:
        span.set_attribute("error.type", str(status))
        span.set_status(StatusCode.ERROR)


class TracedTriton(TritonClient):
    """A TritonClient with a span for each decision of a traced request, and under it one for each step."""

    def __init__(self, url: str, tracer: Tracer) -> None:
        super().__init__(url, interceptors=[_Propagation()])
        self._tracer = tracer

    async def decide(self, body: bytes, *, request_id: str, **asked: Any) -> Decision:
        if not get_current_span().get_span_context().is_valid:  # a heartbeat
            return await super().decide(body, request_id=request_id, **asked)
        with self._tracer.start_as_current_span(
            ENSEMBLE,
            kind=SpanKind.CLIENT,
            attributes={"rpc.system": "grpc", "rpc.method": "ModelInfer", "systemone.request_id": request_id},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            began = time_ns()
            try:
                decision = await super().decide(body, request_id=request_id, **asked)
            except ServiceError as error:
                span.set_attribute("error.type", error.error_type)
                if error.status >= 500:
                    span.set_status(StatusCode.ERROR)
                raise
            except asyncio.CancelledError:
                span.set_attribute("error.type", "cancelled")
                raise
            if decision.cached:
                span.set_attribute("clef.cached", True)
            elif span.is_recording():
                self._tell_steps(decision, began, time_ns())
            return decision

    def _tell_steps(self, decision: Decision, began: int, ended: int) -> None:
        batch = {"clef.batch_records": decision.batch_size}
        # The model step's two follow one another.
        groups: list[list[tuple[str, float, dict[str, int]]]] = [
            [(PREPROCESS, decision.preprocess_ms, {})],
            [(f"{MODEL} queue", decision.queue_ms, {}), (f"{MODEL} compute", decision.compute_ms, batch)],
            [(POSTPROCESS, decision.postprocess_ms, {})],
        ]
        spent = int(sum(decision.times_ms.values()) * 1_000_000)
        gap = max(0, ended - began - spent) // (len(groups) + 1)
        start = began
        for group in groups:
            start += gap
            for name, milliseconds, counts in group:
                attributes = {"clef.start_estimated": True, **counts}
                span = self._tracer.start_span(name, attributes=attributes, start_time=start)
                start += int(milliseconds * 1_000_000)
                span.end(start)


class _Propagation(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    """Sends the current span's context with a call."""

    async def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: grpc.aio.ClientCallDetails, request: Any
    ) -> Any:
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        if carrier:
            metadata = grpc.aio.Metadata(*(client_call_details.metadata or ()), *carrier.items())
            client_call_details = client_call_details._replace(metadata=metadata)
        return await continuation(client_call_details, request)
