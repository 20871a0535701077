"""A collector of traces: a real HTTP server that takes OTLP, as protobuf from Python and as JSON from Triton."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE_S = 20


@dataclass(frozen=True)
class Span:
    """Times are Unix nanoseconds, ids are hexadecimal; `status` is OTLP's: 0 unset, 2 error."""

    service: str
    trace: str
    id: str
    parent: str
    name: str
    kind: int
    began: int
    ended: int
    status: int
    attributes: dict[str, Any]

    @property
    def ms(self) -> float:
        return (self.ended - self.began) / 1e6


@dataclass
class Collector:
    port: int
    bodies: list[bytes] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """A process' variables for spans to come here at once."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def take(self, content_type: str, body: bytes) -> None:
        self.bodies.append(body)
        self.spans += _of_json(body) if content_type == "application/json" else _of_protobuf(body)

    def trace(self, number: str, complete: Callable[[list[Span]], bool]) -> list[Span]:
        """The spans of a trace, in the order of their beginning, as soon as they are complete."""
        until = time.monotonic() + PATIENCE_S
        while not complete(found := [span for span in self.spans if span.trace == number]):
            assert time.monotonic() < until, found
            time.sleep(0.02)
        return sorted(found, key=lambda span: span.began)


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/traces"
            collector.take(self.headers["content-type"], body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(server.server_port)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def _of_protobuf(body: bytes) -> Iterator[Span]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    service,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.name,
                    span.kind,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    span.status.code,
                    _attributes(span.attributes),
                )
                assert not span.events


def _attributes(found: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in found}


def _of_json(body: bytes) -> Iterator[Span]:
    for resource in json.loads(body)["resourceSpans"]:
        service = {each["key"]: each["value"] for each in resource["resource"]["attributes"]}["service.name"]
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                yield Span(
                    service["stringValue"],
                    span["traceId"],
                    span["spanId"],
                    span.get("parentSpanId", ""),
                    span["name"],
                    span["kind"],
                    int(span["startTimeUnixNano"]),
                    int(span["endTimeUnixNano"]),
                    span.get("status", {}).get("code", 0),
                    {each["key"]: next(iter(each["value"].values())) for each in span.get("attributes", [])},
                )
