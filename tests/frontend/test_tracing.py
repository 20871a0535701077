"""The spans that a real collector gets of the frontend."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import grpc
import httpx
import pytest

from frontend.tracing import from_environment
from tests.frontend.collector import Collector, Span, collecting
from tests.frontend.fakes import FakeEnsemble
from tests.frontend.kserve_server import Kserve, serving
from tests.frontend.places import Place
from tests.frontend.processes import ROOT, Frontend, connectable, frontend
from tests.frontend.running import NOUL, until_ready

PARENT = "00f067aa0ba902b7"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
CANARY = "canary7261"
SERVER, CLIENT = 2, 3


def ended(name: str) -> Callable[[list[Span]], bool]:
    return lambda spans: any(span.name == name for span in spans)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as started:
        yield started


@pytest.fixture
async def traced(kserve: Kserve, collector: Collector, tmp_path: Path) -> AsyncIterator[Frontend]:
    async with (
        serving(kserve) as triton,
        frontend(tmp_path / "log", TRITON_URL=f"127.0.0.1:{triton}", **collector.settings) as started,
        httpx.AsyncClient(base_url=started.url) as client,
    ):
        await connectable(client)
        await until_ready(client)
        yield started


@pytest.fixture
async def client(traced: Frontend) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=traced.url, timeout=30) as opened:
        yield opened


async def trace(collector: Collector, name: str = "POST /v1/systemone", number: str = TRACE) -> list[Span]:
    return await asyncio.to_thread(collector.trace, number, ended(name))


async def test_a_decision_is_a_trace_of_its_steps(client: httpx.AsyncClient, collector: Collector) -> None:
    answer = await client.post("/v1/systemone", json=NOUL, headers={**SAMPLED, "x-request-id": "my-id"})
    request, call, *steps = await trace(collector)
    assert (request.name, request.kind, request.parent) == ("POST /v1/systemone", SERVER, PARENT)
    assert request.service == "clef-frontend"
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/systemone",
        "http.response.status_code": 200,
        "systemone.request_id": "my-id",
        "systemone.dialect": "systemone",
        "systemone.model": "clef-flash",
        "systemone.questions": 1,
        "systemone.images": 0,
        "systemone.tokens": answer.json()["usage"]["input_tokens"],
        "systemone.batch_size": 3,
    }
    assert (call.name, call.kind, call.parent) == ("clef", CLIENT, request.id)
    assert call.attributes == {"rpc.system": "grpc", "rpc.method": "ModelInfer", "systemone.request_id": "my-id"}
    assert request.began <= call.began and call.ended <= request.ended
    names = ["clef_preprocess", "clef_model queue", "clef_model compute", "clef_postprocess"]
    assert [span.name for span in steps] == names
    assert [span.ms for span in steps] == [1.25, 0.5, 2.5, 0.25]
    assert {span.parent for span in steps} == {call.id}
    assert all(span.attributes["clef.start_estimated"] for span in steps)
    assert steps[2].attributes["clef.batch_records"] == 3
    assert {request.status, call.status, *(span.status for span in steps)} == {0}


async def test_steps_lie_one_after_another_within_their_call(
    client: httpx.AsyncClient, collector: Collector, kserve: Kserve
) -> None:
    kserve.latency_s = 0.1
    await client.post("/v1/systemone", json=NOUL, headers=SAMPLED)
    _, call, preprocess, queue, compute, postprocess = await trace(collector)
    gaps = [
        preprocess.began - call.began,
        queue.began - preprocess.ended,
        postprocess.began - compute.ended,
        call.ended - postprocess.ended,
    ]
    assert all(gap / 1e6 > 20 for gap in gaps)
    assert len({gap // 1_000_000 for gap in gaps[:3]}) <= 2
    assert compute.began == queue.ended


async def test_each_item_of_a_batch_is_a_call(client: httpx.AsyncClient, collector: Collector) -> None:
    await client.post("/v1/systemone/batch", json=[NOUL, NOUL], headers={**SAMPLED, "x-request-id": "two"})
    spans = await trace(collector, "POST /v1/systemone/batch")
    calls = [span for span in spans if span.name == "clef"]
    assert {span.attributes["systemone.request_id"] for span in calls} == {"two.0", "two.1"}
    assert {span.parent for span in calls} == {spans[0].id} and spans[0].attributes["systemone.items"] == 2
    assert len(spans) == 1 + 2 * 5


async def test_a_kept_answer_has_no_steps(client: httpx.AsyncClient, collector: Collector, kserve: Kserve) -> None:
    kserve.ensemble = FakeEnsemble(response_cache_bytes=1)
    for _ in range(2):  # of which the first one tells of the cache, and the second is kept
        await client.post("/v1/systemone", json=NOUL)
    await client.post("/v1/systemone", json=NOUL, headers=SAMPLED)
    request, call = await trace(collector)
    assert request.attributes["systemone.cached"] == 1 and request.attributes["systemone.batch_size"] == 0
    assert call.attributes["clef.cached"] is True


async def test_failures_are_told_by_their_class(
    client: httpx.AsyncClient, collector: Collector, kserve: Kserve
) -> None:
    kserve.failure = (grpc.StatusCode.INTERNAL, CANARY)
    assert (await client.post("/v1/systemone", json=NOUL, headers=SAMPLED)).status_code == 500
    request, call = await trace(collector)
    assert (request.status, request.attributes["error.type"]) == (2, "500")
    assert (call.status, call.attributes["error.type"]) == (2, "api_error")


async def test_what_a_client_did_wrong_is_no_error_of_ours(client: httpx.AsyncClient, collector: Collector) -> None:
    assert (await client.post("/v1/systemone", json={"questions": {}}, headers=SAMPLED)).status_code == 422
    request, call = await trace(collector)
    assert (request.status, request.attributes["http.response.status_code"]) == (0, 422)
    assert (call.status, call.attributes["error.type"]) == (0, "validation_error")


async def test_a_client_that_leaves_is_told(
    client: httpx.AsyncClient, traced: Frontend, collector: Collector, kserve: Kserve
) -> None:
    kserve.latency_s = 0.5
    with pytest.raises(httpx.ReadTimeout):
        async with httpx.AsyncClient(base_url=traced.url, timeout=0.2) as impatient:
            await impatient.post("/v1/systemone", json=NOUL, headers=SAMPLED)
    request, call = await trace(collector)
    assert request.attributes["http.response.status_code"] == 499 and request.status == 0
    assert call.attributes["error.type"] == "cancelled"


async def test_a_request_without_a_parent_begins_a_trace(client: httpx.AsyncClient, collector: Collector) -> None:
    await client.post("/v1/systemone", json=NOUL, headers={"traceparent": CANARY, "x-request-id": "first"})
    await client.post("/v1/systemone", json=NOUL, headers=SAMPLED)
    await trace(collector)
    (found,) = (span for span in collector.spans if span.kind == SERVER and not span.parent)
    assert found.attributes["systemone.request_id"] == "first" and found.trace != TRACE


async def test_what_is_not_sampled_or_only_watches_leaves_no_span(
    client: httpx.AsyncClient, collector: Collector, kserve: Kserve
) -> None:
    await client.post("/v1/systemone", json=NOUL, headers={"traceparent": f"00-{'a' * 32}-{PARENT}-00"})
    for path in ("/health", "/healthz", "/metrics"):
        await client.get(path)
    beats = sum(message.id == "heartbeat" for message in kserve.requests)
    async with asyncio.timeout(10):
        while sum(message.id == "heartbeat" for message in kserve.requests) == beats:
            await asyncio.sleep(0.05)
    await client.post("/v1/systemone", json=NOUL, headers=SAMPLED)
    assert len(await trace(collector)) == len(collector.spans) == 6


async def test_nothing_that_a_client_typed_is_in_a_span(
    collector: Collector, kserve: Kserve, place: Place, tmp_path: Path
) -> None:
    key = place.add("somebody")
    async with (
        serving(kserve) as triton,
        frontend(
            tmp_path / "log",
            TRITON_URL=f"127.0.0.1:{triton}",
            SYSTEMONE_KEYS=str(place.settings().keys),
            **collector.settings,
        ) as started,
        httpx.AsyncClient(base_url=started.url, headers={**key, **SAMPLED, "user-agent": CANARY}) as client,
    ):
        await connectable(client)
        await until_ready(client)
        state = {**NOUL, "state": CANARY}
        wrong = {"state": "", "questions": {CANARY: {"type": CANARY}}}
        await client.post(f"/v1/systemone?{CANARY}={CANARY}", json=state, headers={"baggage": f"a={CANARY}"})
        await client.post("/v1/systemone", json=wrong)
        await client.post("/v1/systemone", json={**NOUL, "model": CANARY})
        await client.post(f"/client/v4/accounts/{CANARY}/ai/run/@cf/cloudflare/clef-flash", json=NOUL)
        await client.get(f"/{CANARY}")
        await client.post("/v1/systemone", json=NOUL, headers={"authorization": f"Bearer {CANARY}"})
        started.process.send_signal(signal.SIGTERM)
        assert await started.stopped() == 0
    requests = [span for span in collector.spans if span.kind == SERVER]
    assert [span.attributes["http.response.status_code"] for span in requests] == [200, 422, 400, 200, 404, 401]
    told = b"".join(collector.bodies)
    for secret in (CANARY, key["authorization"].removeprefix("Bearer "), "somebody"):
        assert secret.encode() not in told


async def test_a_collector_that_hangs_holds_nobody_up(kserve: Kserve, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }
        async with (
            serving(kserve) as triton,
            frontend(tmp_path / "log", TRITON_URL=f"127.0.0.1:{triton}", **settings) as started,
            httpx.AsyncClient(base_url=started.url) as client,
        ):
            await connectable(client)
            await until_ready(client)
            for _ in range(20):
                assert (await client.post("/v1/systemone", json=NOUL)).status_code == 200
            asked = time.monotonic()
            started.process.send_signal(signal.SIGTERM)
            assert await started.stopped() == 0
            assert time.monotonic() - asked < 8


def test_without_a_collector_nothing_is_loaded_and_nothing_is_in_a_requests_way() -> None:
    # redis loads the SDK's metrics wherever they are installed.
    code = (
        "import sys; from frontend.__main__ import server; from frontend.settings import Settings;"
        "app = server(Settings()).config.app;"
        "print([each.cls.__name__ for each in app.user_middleware],"
        " {'opentelemetry.sdk.trace', 'opentelemetry.exporter'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "['RequestContext', 'HeadAsGet', 'LingeringClose'] set()"


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, ""),
        ({"OTEL_SDK_DISABLED": "true"}, ""),
        ({"OTEL_TRACES_EXPORTER": "none"}, ""),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "not zipkin over http/protobuf"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "not otlp over grpc"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, "a variable of OpenTelemetry's is wrong"),
    ],
)
def test_what_makes_no_traces_is_said(
    variables: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", **variables}.items():
        monkeypatch.setenv(name, value)
    with caplog.at_level(logging.WARNING):
        assert from_environment("0") is None
    assert said in caplog.text and bool(said) == bool(caplog.text)


def test_without_the_packages_it_serves_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert from_environment("0") is None
    assert "requirements/tracing.txt" in caplog.text
