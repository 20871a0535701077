"""`GET /metrics`: what the frontend counts, in Prometheus' text format.

Every label has a bounded set of values: dialects, statuses and steps. No key, model name or address is a label.
"""

from collections.abc import Mapping

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

# From a cache hit on a GPU to a deadline of half a minute.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_RECORDS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """One registry an app."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "systemone_requests", "Answers, by dialect and HTTP status.", ["dialect", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "systemone_request_seconds",
            "From a request's head to its answer.",
            ["dialect"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.step_seconds = Histogram(
            "systemone_step_seconds",
            "Time of a computed decision in each step.",
            ["step"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.batch_size = Histogram(
            "systemone_batch_records",
            "Records in the micro-batch of a computed decision.",
            buckets=_RECORDS,
            registry=self.registry,
        )
        self.tokens = Counter("systemone_input_tokens", "Tokens of answered decisions.", registry=self.registry)
        self.cached = Counter(
            "systemone_cached_decisions",
            "Decisions that Triton's response cache answered, without any step.",
            registry=self.registry,
        )
        self.in_flight = Gauge("systemone_in_flight", "Decisions being read or answered.", registry=self.registry)
        self.ready = Gauge("systemone_ready", "1 while answers come, as /health says it.", registry=self.registry)
        self.rate_limited = Counter("systemone_rate_limited", "Requests over their rate.", registry=self.registry)
        self.rate_storage_up = Gauge(
            "systemone_rate_storage_up",
            "0 while the shared rate storage cannot be reached and this process counts rates by itself.",
            registry=self.registry,
        )
        self.usage_written = Counter("systemone_usage_rows_written", "Rows in the usage log.", registry=self.registry)
        self.usage_dropped = Counter(
            "systemone_usage_rows_dropped", "Rows that the usage log lost.", registry=self.registry
        )

    def answered(self, dialect: str, status: int, seconds: float) -> None:
        """A request of a dialect was answered, or refused."""
        self.requests.labels(dialect, str(status)).inc()
        self.seconds.labels(dialect).observe(seconds)

    def computed(self, times_ms: Mapping[str, float], batch_size: int) -> None:
        """The steps answered one decision."""
        for step, milliseconds in times_ms.items():
            self.step_seconds.labels(step).observe(milliseconds / 1000)
        self.batch_size.observe(batch_size)


def router(metrics: Metrics) -> APIRouter:
    routes = APIRouter(tags=["Service"])

    @routes.get("/metrics", response_class=PlainTextResponse, summary="Counters for Prometheus")
    async def read() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return routes
