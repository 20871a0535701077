"""One trace through the frontend and Triton's steps, with Triton's own spans beside the frontend's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import httpx
import pytest

from tests.frontend.collector import Collector, Span, collecting
from tests.frontend.running import NOUL
from tests.stack.running import STEPS, Stack, start_stack

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
OF_THE_STEPS = ["clef_preprocess", "clef_model queue", "clef_model compute", "clef_postprocess"]


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as started:
        yield started


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Stack]:
    # As docs/deploy.md has them.
    options = [
        "mode=opentelemetry",
        f"opentelemetry,url={collector.url}/v1/traces",
        "opentelemetry,resource=service.name=clef-triton",
        "level=TIMESTAMPS",
        "rate=1",
    ]
    folder = tmp_path_factory.mktemp("traced")
    commands = [f"--trace-config={option}" for option in options]
    with start_stack(folder, triton_options=commands, **collector.settings) as running_stack:
        yield running_stack


def complete(spans: list[Span]) -> bool:
    return {"POST /v1/systemone", "InferRequest"} <= {span.name for span in spans}


def test_one_trace_holds_the_frontends_spans_and_tritons(traced: Stack, collector: Collector) -> None:
    with httpx.Client(base_url=traced.frontend, timeout=60) as http:
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "traced"}
        assert http.post("/v1/systemone", json=NOUL, headers=headers).status_code == 200
    spans = collector.trace(TRACE, complete)
    (request,) = (span for span in spans if span.parent == PARENT)
    assert (request.service, request.name) == ("clef-frontend", "POST /v1/systemone")
    (call,) = (span for span in spans if span.parent == request.id)
    children = [span for span in spans if span.parent == call.id]

    steps = [span for span in children if span.service == "clef-frontend"]
    assert [span.name for span in steps] == OF_THE_STEPS
    assert call.began <= steps[0].began and steps[-1].ended <= call.ended
    assert all(one.ended <= other.began for one, other in pairwise(steps))
    assert steps[2].ms > 0 and steps[2].attributes["clef.batch_records"] == 1

    (at_triton,) = (span for span in children if span.service == "clef-triton")
    assert at_triton.name == "InferRequest" and call.began <= at_triton.began
    (ensemble,) = (span for span in spans if span.parent == at_triton.id)
    own = [span for span in spans if span.parent == ensemble.id]
    assert [span.name for span in own] == list(STEPS)
    assert {span.attributes["triton.request_id"] for span in own} == {"traced"}


def test_a_trace_that_is_not_sampled_has_no_span_of_the_frontends(traced: Stack, collector: Collector) -> None:
    trace = "a" * 32
    with httpx.Client(base_url=traced.frontend, timeout=60) as http:
        http.post("/v1/systemone", json=NOUL, headers={"traceparent": f"00-{trace}-{PARENT}-00"})
        http.post("/v1/systemone", json=NOUL, headers={"traceparent": f"00-{'b' * 32}-{PARENT}-01"})
    collector.trace("b" * 32, complete)
    # Triton asks nobody what to sample but its own `rate`.
    assert {span.service for span in collector.spans if span.trace == trace} == {"clef-triton"}
