"""Every row of the contract's error table that needs no key, in its shape, with nothing of the request in it."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from frontend.app import create_app
from frontend.settings import Settings
from preprocess.errors import DeadlineExceeded, InternalError, Overloaded, ServiceError
from tests.frontend.fakes import FakeEnsemble, FakeTriton
from tests.frontend.running import NOUL, assert_documented, client_of, until_ready

SECRET = "canary7261"


def with_question(question: Any) -> bytes:
    return json.dumps({"state": SECRET, "questions": {"q": question}}).encode()


def nested(depth: int) -> bytes:
    return b'{"state":' + b"[" * depth + b"]" * depth + b',"questions":{"q":{"type":"noul"}}}'


BAD_REQUESTS: dict[str, bytes] = {
    "array": b'["canary7261"]',
    "string": b'"canary7261"',
    "null": b"null",
    "not UTF-8": b'{"state":"canary7261\xff","questions":{"q":{"type":"noul"}}}',
    "UTF-16": json.dumps(NOUL).encode("utf-16"),
    "NaN": b'{"state":NaN,"x":"canary7261"}',
    "Infinity": b'{"state":-Infinity,"questions":{"q":{"type":"noul"}}}',
    "1e400": b'{"state":1e400,"questions":{"q":{"type":"noul"}}}',
    "5000 digits": b'{"state":' + b"9" * 5000 + b',"questions":{"q":{"type":"noul"}}}',
    "lone surrogate": rb'{"state":"canary7261 \ud800","questions":{"q":{"type":"noul"}}}',
}
INVALID: dict[str, tuple[bytes, list[Any]]] = {
    "empty": (b"", ["body", 0]),
    "not JSON": (b"canary7261", ["body", 0]),
    "half": (b'{"state":"canary7261"', ["body", 21]),
    "no state": (b'{"questions":{"q":{"type":"noul"}}}', ["body", "state"]),
    "no questions": (b'{"state":"canary7261"}', ["body", "questions"]),
    "questions NaN-like": (b'{"state":"canary7261","questions":"canary7261"}', ["body", "questions"]),
    "empty questions": (b'{"state":"canary7261","questions":{}}', ["body", "questions"]),
    "empty id": (b'{"state":1,"questions":{"":{"type":"noul"}}}', ["body", "questions", ""]),
    "unknown type": (with_question({"type": SECRET}), ["body", "questions", "q"]),
    "no type": (with_question({"instructions": SECRET}), ["body", "questions", "q"]),
    "question a string": (with_question(SECRET), ["body", "questions", "q"]),
    "noul key": (with_question({"type": "noul", "criteria": {"maybe": SECRET}}), ["body", "questions", "q", "noul"]),
    "choice none": (with_question({"type": "choice"}), ["body", "questions", "q", "choice", "criteria"]),
    "choice empty": (
        with_question({"type": "choice", "criteria": {}}),
        ["body", "questions", "q", "choice", "criteria"],
    ),
    "choice 256": (
        with_question({"type": "choice", "criteria": {f"o{i}": None for i in range(256)}}),
        ["body", "questions", "q", "choice", "criteria"],
    ),
    "choice number": (
        with_question({"type": "choice", "criteria": {"a": 7261}}),
        ["body", "questions", "q", "choice", "criteria", "a"],
    ),
    "score object": (
        with_question({"type": "score", "criteria": {"a": SECRET}}),
        ["body", "questions", "q", "score", "criteria"],
    ),
    "score null": (
        with_question({"type": "score", "criteria": [None]}),
        ["body", "questions", "q", "score", "criteria", 0],
    ),
    "score 11": (
        with_question({"type": "score", "criteria": [SECRET] * 11}),
        ["body", "questions", "q", "score", "criteria"],
    ),
    "instructions number": (
        with_question({"type": "noul", "instructions": 7261}),
        ["body", "questions", "q", "noul", "instructions"],
    ),
    "65 questions": (
        json.dumps({"state": 1, "questions": {f"q{i}": {"type": "noul"} for i in range(65)}}).encode(),
        ["body", "questions"],
    ),
    "repeated key": (
        b'{"state":1,"state":"canary7261","questions":{"q":{"type":"noul"}}}',
        ["body", "state"],
    ),
    "too deep": (nested(66), ["body", "state"]),
    "far too deep": (nested(100_000), ["body"]),
    "videos": (b'{"state":1,"videos":[["canary7261"]],"questions":{"q":{"type":"noul"}}}', ["body", "videos"]),
    "http image": (
        b'{"state":1,"images":["http://127.0.0.1/canary7261"],"questions":{"q":{"type":"noul"}}}',
        ["body", "images", 0],
    ),
    "no image": (
        b'{"state":1,"images":["data:image/png;base64,Y2FuYXJ5NzI2MQ=="],"questions":{"q":{"type":"noul"}}}',
        ["body", "images", 0],
    ),
}


def assert_clean(response: httpx.Response) -> None:
    assert response.headers["content-type"] == "application/json"
    assert len(response.content) <= 4096
    assert set(response.json()) == {"detail"}
    assert SECRET not in response.text and "7261" not in response.text
    assert response.headers["x-request-id"] == response.headers["x-typesafe-request-id"]


async def assert_still_answers(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/systemone", json=NOUL)).status_code == 200


@pytest.mark.parametrize("name", BAD_REQUESTS)
async def test_400(client: httpx.AsyncClient, app: FastAPI, name: str) -> None:
    response = await client.post("/v1/systemone", content=BAD_REQUESTS[name])
    assert response.status_code == 400
    assert response.json()["detail"]["error_type"] == "invalid_request_error"
    assert response.json()["detail"]["message"]
    assert_clean(response)
    assert_documented(app, response)
    await assert_still_answers(client)


async def test_400_unknown_model(client: httpx.AsyncClient, triton: FakeTriton, app: FastAPI) -> None:
    response = await client.post("/v1/systemone", json={**NOUL, "model": SECRET})
    assert response.status_code == 400
    assert response.json()["detail"]["error_type"] == "api_usage_error"
    assert triton.model is not None
    for name in triton.model.names:
        assert name in response.json()["detail"]["message"]
    assert_clean(response)
    assert_documented(app, response)


@pytest.mark.parametrize("name", INVALID)
async def test_422(client: httpx.AsyncClient, app: FastAPI, name: str) -> None:
    body, loc = INVALID[name]
    response = await client.post("/v1/systemone", content=body)
    assert response.status_code == 422
    issue = response.json()["detail"][0]
    assert set(issue) == {"loc", "msg", "type"}
    assert issue["loc"][: len(loc)] == loc
    assert_clean(response)
    assert_documented(app, response)
    await assert_still_answers(client)


async def test_422_with_thousands_of_issues_is_short(client: httpx.AsyncClient) -> None:
    questions = {f"question-{i}": {"type": "choice", "criteria": {f"o{j}": 1 for j in range(200)}} for i in range(60)}
    response = await client.post("/v1/systemone", json={"state": 1, "questions": questions})
    assert response.status_code == 422
    assert response.json()["detail"][-1]["msg"].endswith("more")
    assert_clean(response)


async def test_413_tokens(client: httpx.AsyncClient, app: FastAPI) -> None:
    response = await client.post("/v1/systemone", json={**NOUL, "state": "canary7261 " * 20_000})
    assert response.status_code == 413
    assert response.json()["detail"]["error_type"] == "request_too_large"
    assert "16384" in response.json()["detail"]["message"]
    assert SECRET not in response.text
    assert_documented(app, response)


async def test_404(client: httpx.AsyncClient) -> None:
    for path in ("/v1/system-one", "/canary7261", "/v1/systemone/", "/v1/models/clef"):
        response = await client.post(path, json=NOUL)
        assert response.status_code == 404
        assert response.json()["detail"]["error_type"] == "not_found_error"
        assert_clean(response)


async def test_405(client: httpx.AsyncClient) -> None:
    for method, path, allowed in (("GET", "/v1/systemone", "POST"), ("DELETE", "/v1/models", "GET")):
        response = await client.request(method, path)
        assert response.status_code == 405
        assert response.headers["allow"] == allowed
        assert response.json()["detail"]["error_type"] == "invalid_request_error"
        assert_clean(response)


@pytest.mark.parametrize(
    ("error", "status", "error_type"),
    [
        (Overloaded("The queue is full."), 503, "overloaded_error"),
        (DeadlineExceeded("The deadline passed."), 504, "timeout_error"),
        (InternalError(f"CUDA error at /opt/{SECRET}.py"), 500, "api_error"),
    ],
)
async def test_errors_of_the_ensemble(
    client: httpx.AsyncClient, triton: FakeTriton, app: FastAPI, error: ServiceError, status: int, error_type: str
) -> None:
    triton.fault = lambda call: error
    response = await client.post("/v1/systemone", json=NOUL, headers={"x-request-id": "mine"})
    assert response.status_code == status
    assert response.json()["detail"]["error_type"] == error_type
    assert ("retry-after" in response.headers) == (status == 503) == ("retry-after-ms" in response.headers)
    assert ("mine" in response.json()["detail"]["message"]) == (status == 500)
    assert response.headers["x-request-id"] == "mine"
    assert_clean(response)
    assert_documented(app, response)
    triton.fault = lambda call: None
    await assert_still_answers(client)


async def test_a_bug_of_ours_is_a_bare_500_and_the_log_has_its_place(
    client: httpx.AsyncClient, triton: FakeTriton, app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    triton.fault = lambda call: KeyError(SECRET) if call.request_id != "heartbeat" else None
    with caplog.at_level(logging.ERROR, "frontend.errors"):
        response = await client.post("/v1/systemone", json=NOUL)
    assert response.status_code == 500
    request_id = response.headers["x-request-id"]
    assert response.json() == {
        "detail": {
            "error_type": "api_error",
            "message": f"The server failed to answer this request. Its id is {request_id}.",
        }
    }
    (record,) = [record for record in caplog.records if record.name == "frontend.errors"]
    assert record.fields == {"request_id": request_id}
    assert record.exc_info is not None and record.exc_info[0] is KeyError
    assert_documented(app, response)


async def test_503_before_the_first_answer_and_none_of_it_after(ensemble: FakeEnsemble) -> None:
    triton = FakeTriton(ensemble, up=False)
    app = create_app(Settings(), triton)
    async with client_of(app) as client:
        response = await client.post("/v1/systemone", json=NOUL)
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1" and response.headers["retry-after-ms"] == "1000"
        assert_clean(response)
        assert (await client.get("/v1/models")).status_code == 503
        triton.up = True
        await until_ready(client)
        await assert_still_answers(client)


async def test_only_what_the_frontend_itself_reads_is_refused_while_triton_is_gone(
    client: httpx.AsyncClient, triton: FakeTriton
) -> None:
    triton.up = False
    assert (await client.post("/v1/systemone", json=NOUL)).status_code == 503
    assert (await client.post("/v1/systemone", json={**NOUL, "questions": {}})).status_code == 503
    limit = triton.model.limits["max_body_bytes"] if triton.model else 0
    assert (await client.post("/v1/systemone", content=b" " * (limit + 1))).status_code == 413


async def test_504_when_the_deadline_passes(ensemble: FakeEnsemble) -> None:
    triton = FakeTriton(ensemble)
    async with client_of(create_app(Settings(request_timeout_ms=50), triton)) as client:
        await until_ready(client)
        triton.latency_s = 1.0
        response = await client.post("/v1/systemone", json=NOUL)
        assert response.status_code == 504
        assert_clean(response)


async def test_503_over_the_number_in_flight(ensemble: FakeEnsemble) -> None:
    triton = FakeTriton(ensemble)
    async with client_of(create_app(Settings(max_in_flight=2), triton)) as client:
        await until_ready(client)
        triton.latency_s = 0.2
        statuses = sorted(
            response.status_code
            for response in await asyncio.gather(*(client.post("/v1/systemone", json=NOUL) for _ in range(5)))
        )
        assert statuses == [200, 200, 503, 503, 503]
        await assert_still_answers(client)
