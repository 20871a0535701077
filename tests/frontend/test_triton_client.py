"""TritonClient against a real gRPC server."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from frontend.triton import TritonClient
from preprocess.errors import (
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    Overloaded,
    RequestTooLarge,
    ValidationFailed,
)
from tests.frontend.fakes import FakeEnsemble
from tests.frontend.kserve_server import STEPS, Kserve, serving
from tests.frontend.running import NOUL, body_of
from tests.invariants import assert_answer

BODY = json.dumps(NOUL).encode()


def in_seconds(seconds: float) -> float:
    return time.time() + seconds


@asynccontextmanager
async def client_to(port: int) -> AsyncIterator[TritonClient]:
    client = TritonClient(f"127.0.0.1:{port}")
    await client.start()
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
async def client(kserve: Kserve) -> AsyncIterator[TritonClient]:
    async with serving(kserve) as port, client_to(port) as opened:
        yield opened


async def test_a_decision(client: TritonClient, kserve: Kserve) -> None:
    assert client.info() is None
    deadline = in_seconds(10)
    decision = await client.decide(
        BODY, request_id="my-id", deadline=deadline, parameters={"digits": 2, "confidence": "typesafe"}
    )
    assert_answer(NOUL, json.loads(decision.response))
    assert decision.response == kserve.ensemble(BODY, [], {"digits": 2}).response
    assert decision.model.name == "clef-flash" and client.info() is decision.model
    times = (decision.queue_ms, decision.preprocess_ms, decision.compute_ms, decision.postprocess_ms)
    assert times == (0.5, 1.25, 2.5, 0.25)
    assert decision.batch_size == 3
    (message,) = kserve.requests
    assert message.id == "my-id"
    sent = {name: getattr(value, value.WhichOneof("parameter_choice")) for name, value in message.parameters.items()}
    assert len(sent.pop("cancel_token")) == 32
    assert sent == {"digits": 2, "confidence": "typesafe", "deadline_ms": int(deadline * 1000)}


async def test_the_model_is_read_again_only_when_it_changed(client: TritonClient, kserve: Kserve) -> None:
    first = await client.decide(BODY, request_id="1", deadline=in_seconds(10))
    second = await client.decide(BODY, request_id="2", deadline=in_seconds(10))
    assert first.model is second.model
    kserve.ensemble = FakeEnsemble(digits=2)
    third = await client.decide(BODY, request_id="3", deadline=in_seconds(10))
    assert third.model.settings["digits"] == 2 and client.info() is third.model


async def test_errors_of_the_steps_arrive(client: TritonClient) -> None:
    for body, kind in (
        (b"[]", InvalidRequest),
        (b"{", ValidationFailed),
        (json.dumps({**NOUL, "state": "word " * 30_000}).encode(), RequestTooLarge),
    ):
        with pytest.raises(kind) as told:
            await client.decide(body, request_id="id", deadline=in_seconds(10))
        assert type(told.value) is kind


async def test_large_messages_pass(client: TritonClient) -> None:
    with pytest.raises(RequestTooLarge, match="The body has 33554432 bytes"):
        await client.decide(body_of(32 * 1024 * 1024), request_id="id", deadline=in_seconds(20))
    decision = await client.decide(body_of(12 * 1024 * 1024), request_id="id", deadline=in_seconds(20))
    assert_answer(NOUL, json.loads(decision.response))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, Overloaded),
        (grpc.StatusCode.CANCELLED, Overloaded),
        (grpc.StatusCode.DEADLINE_EXCEEDED, DeadlineExceeded),
        (grpc.StatusCode.INTERNAL, InternalError),
        (grpc.StatusCode.UNKNOWN, InternalError),
        (grpc.StatusCode.NOT_FOUND, InternalError),
    ],
)
async def test_failures_of_triton_stay_in_the_log(
    client: TritonClient, kserve: Kserve, caplog: pytest.LogCaptureFixture, code: grpc.StatusCode, kind: type[Exception]
) -> None:
    kserve.failure = (code, "Traceback: /opt/somewhere/model.py")
    with pytest.raises(kind) as told, caplog.at_level(logging.WARNING, "frontend.triton"):
        await client.decide(BODY, request_id="my-id", deadline=in_seconds(10))
    assert type(told.value) is kind
    assert "somewhere" not in told.value.to_json()
    (record,) = caplog.records
    assert record.fields == {
        "request_id": "my-id",
        "grpc": code.name,
        "details": "Traceback: /opt/somewhere/model.py",
    }


async def test_an_answer_that_lacks_an_output_is_a_failure(
    client: TritonClient, kserve: Kserve, caplog: pytest.LogCaptureFixture
) -> None:
    kserve.leave_out = "RESPONSE"
    with pytest.raises(InternalError), caplog.at_level(logging.ERROR, "frontend.triton"):
        await client.decide(BODY, request_id="my-id", deadline=in_seconds(10))
    assert caplog.records[0].fields == {"request_id": "my-id", "details": "the ensemble gave no RESPONSE"}


async def test_a_deadline_that_passes(client: TritonClient, kserve: Kserve) -> None:
    kserve.latency_s = 5.0
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        await client.decide(BODY, request_id="id", deadline=in_seconds(0.2))
    assert time.monotonic() - began < 2
    asked = len(kserve.requests)
    with pytest.raises(DeadlineExceeded):
        await client.decide(BODY, request_id="id", deadline=in_seconds(-1))
    assert len(kserve.requests) == asked


async def test_what_is_given_up_is_cancelled_by_its_token_and_no_call_is_broken_off(
    client: TritonClient, kserve: Kserve
) -> None:
    """A call that is broken off as its answer comes may end Triton 2.51."""
    kserve.latency_s = 30.0
    call = asyncio.create_task(client.decide(BODY, request_id="id", deadline=in_seconds(60)))
    while not kserve.requests:
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with asyncio.timeout(5):
        while not kserve.cancelled or kserve.held:
            await asyncio.sleep(0.01)
    assert kserve.broken_off == 0


async def test_a_call_goes_on_when_its_deadline_has_passed(client: TritonClient, kserve: Kserve) -> None:
    kserve.latency_s = 0.6
    with pytest.raises(DeadlineExceeded):
        await client.decide(BODY, request_id="id", deadline=in_seconds(0.2))
    assert kserve.held == 1
    async with asyncio.timeout(5):
        while not kserve.answers:
            await asyncio.sleep(0.01)
    assert (kserve.held, kserve.broken_off) == (0, 0)


async def test_steps_that_live_answer_while_the_model_computes(client: TritonClient, kserve: Kserve) -> None:
    kserve.latency_s = 30.0
    async with asyncio.timeout(5):
        assert await client.ask_steps(BODY, request_id="id", timeout_s=5.0) == 0
    asked = [request.model_name for request in kserve.requests]
    assert asked == ["clef_model", "clef_preprocess", "clef_postprocess"]


async def test_counts_the_ensembles_answers(client: TritonClient, kserve: Kserve) -> None:
    assert await client.answers(5.0) == 0
    for _ in range(2):
        await client.decide(BODY, request_id="id", deadline=time.time() + 5)
    assert await client.answers(5.0) == 2


async def test_the_steps_tell_how_many_requests_the_model_has(client: TritonClient, kserve: Kserve) -> None:
    kserve.latency_s = 30.0
    deadline = time.time() + 60
    waiting = [
        asyncio.create_task(client.decide(BODY, request_id=name, deadline=deadline)) for name in ("a", "b", "heartbeat")
    ]
    while len(kserve.requests) < len(waiting):
        await asyncio.sleep(0.01)
    assert await client.ask_steps(BODY, request_id="id", timeout_s=5.0) == 2
    for call in waiting:
        call.cancel()
    await asyncio.wait(waiting)


@pytest.mark.parametrize("step", STEPS)
async def test_a_dead_step_is_told_from_a_slow_one(client: TritonClient, kserve: Kserve, step: str) -> None:
    kserve.dead = {step}
    with pytest.raises(InternalError):
        await client.ask_steps(BODY, request_id="id", timeout_s=5.0)
    kserve.death_s = 30.0
    with pytest.raises(DeadlineExceeded):
        await client.ask_steps(BODY, request_id="id", timeout_s=0.2)


async def test_calls_share_the_connection_and_keep_apart(client: TritonClient) -> None:
    requests = [{**NOUL, "questions": {f"id-{i}": {"type": "noul"}}} for i in range(50)]
    decisions = await asyncio.gather(
        *(
            client.decide(json.dumps(request).encode(), request_id=str(i), deadline=in_seconds(30))
            for i, request in enumerate(requests)
        )
    )
    for request, decision in zip(requests, decisions, strict=True):
        assert_answer(request, json.loads(decision.response))


async def test_ready_is_what_server_and_ensemble_say(client: TritonClient, kserve: Kserve) -> None:
    assert await client.ready(5.0)
    kserve.is_ready = False
    assert not await client.ready(5.0)


async def test_unreachable_then_there_then_gone_then_back(kserve: Kserve) -> None:
    async with serving(kserve) as port:
        pass
    async with client_to(port) as client:
        assert not await client.ready(1.0)
        with pytest.raises(Overloaded):
            await client.decide(BODY, request_id="id", deadline=in_seconds(5))
        for _ in range(2):
            async with serving(kserve, port):
                began = time.monotonic()
                while not await client.ready(1.0):
                    assert time.monotonic() - began < 5
                    await asyncio.sleep(0.05)
                await client.decide(BODY, request_id="id", deadline=in_seconds(5))
            with pytest.raises(Overloaded):
                await client.decide(BODY, request_id="id", deadline=in_seconds(5))
