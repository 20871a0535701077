"""Every kind of error in every dialect: its status, its shape, its size, its headers, and nothing of the request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from frontend.app import create_app
from frontend.envelopes import render_for
from frontend.settings import Settings
from preprocess.errors import DeadlineExceeded, InternalError, Overloaded, ServiceError
from tests.frontend.fakes import FakeEnsemble, FakeTriton
from tests.frontend.running import NOUL, assert_documented, client_of, until_ready

SECRET = "canary7261"
OPENAI = {"input": SECRET, "questions": [{"type": "predicate", "instructions": "Is it?"}]}
STATUSES = {
    "not JSON": 400,
    "unknown model": 400,
    "no route": 404,
    "method": 405,
    "slow body": 408,
    "tokens": 413,
    "body": 413,
    "encoding": 415,
    "invalid": 422,
    "thousand faults": 422,
    "overloaded": 503,
    "deadline": 504,
    "ours": 500,
    "bug": 500,
}


@dataclass(frozen=True)
class Dialect:
    """How one dialect is asked, and how it says what went wrong; `expected` where it differs from `STATUSES`."""

    path: str
    body: dict[str, Any]
    told: Callable[[Any], Any]
    expected: dict[str, Any]
    route: str | None = None
    missing: str = "/none"

    def of(self, situation: str) -> Any:
        return self.expected.get(situation, STATUSES[situation])


def cloudflare(content: Any) -> Any:
    assert list(content) == ["result", "success", "errors", "messages"]
    assert content["result"] is None and content["success"] is False and content["messages"] == []
    (error,) = content["errors"]
    assert list(error) == ["code", "message"] and error["message"]
    return error["code"]


def openrouter(content: Any) -> Any:
    assert list(content) == ["error"] and list(content["error"]) == ["code", "message"]
    assert content["error"]["message"]
    return content["error"]["code"]


def openai(content: Any) -> Any:
    assert list(content["error"]) == ["message", "type", "param", "code"]
    assert content["error"]["message"]
    return content["error"]["type"]


def ollaya(content: Any) -> Any:
    assert list(content) in (["error", "code"], ["error", "code", "detail"])
    assert content["error"]
    return content["code"]


DIALECTS = {
    "Workers AI": Dialect(
        "/client/v4/accounts/a/ai/run/@cf/cloudflare/clef-flash",
        {**NOUL, "state": SECRET},
        cloudflare,
        {
            "not JSON": (400, 6003),
            "unknown model": (422, 5012),
            "no route": (400, 7000),
            "method": (405, 7001),
            "slow body": (408, 3007),
            "tokens": (413, 5021),
            "body": (413, 5021),
            "encoding": (415, 6003),
            "invalid": (422, 5012),
            "thousand faults": (422, 5012),
            "overloaded": (429, 3040),
            "deadline": (504, 3007),
            "ours": (529, 5012),
            "bug": (529, 5012),
        },
        "/client/v4/accounts/{account}/ai/run/@cf/cloudflare/{model}",
        "/client/v4/accounts",
    ),
    "OpenRouter": Dialect(
        "/api/alpha/decisions",
        {**NOUL, "state": SECRET},
        openrouter,
        {name: (400, 400) if status == 422 else (status, status) for name, status in STATUSES.items()},
        missing="/api/alpha/models",
    ),
    "OpenAI": Dialect(
        "/v1/decisions",
        OPENAI,
        openai,
        {
            "not JSON": (400, "invalid_request_error"),
            "unknown model": (400, "invalid_request_error"),
            "no route": (404, "not_found_error"),
            "method": (405, "invalid_request_error"),
            "slow body": (408, "timeout_error"),
            "tokens": (413, "request_too_large"),
            "body": (413, "request_too_large"),
            "encoding": (415, "invalid_request_error"),
            "invalid": (422, "invalid_request_error"),
            "thousand faults": (422, "invalid_request_error"),
            "overloaded": (503, "overloaded_error"),
            "deadline": (504, "timeout_error"),
            "ours": (500, "api_error"),
            "bug": (500, "api_error"),
        },
        missing="/v1/decisions/none",
    ),
    "Ollaya": Dialect(
        "/api/decide",
        {**NOUL, "state": SECRET},
        ollaya,
        {
            "not JSON": (400, "INVALID_JSON"),
            "unknown model": (404, "MODEL_NOT_FOUND"),
            "no route": (404, "NOT_FOUND"),
            "method": (405, "METHOD_NOT_ALLOWED"),
            "slow body": (408, "REQUEST_TIMEOUT"),
            "tokens": (200, None),
            "body": (413, "REQUEST_TOO_LARGE"),
            "encoding": (415, "UNSUPPORTED_ENCODING"),
            "invalid": (422, "INVALID_REQUEST"),
            "thousand faults": (422, "INVALID_REQUEST"),
            "overloaded": (503, "QUEUE_FULL"),
            "deadline": (504, "TIMEOUT"),
            "ours": (500, "INTERNAL"),
            "bug": (500, "INTERNAL"),
        },
        missing="/api/none",
    ),
}

by_dialect = pytest.mark.parametrize("name", DIALECTS)


def thousand_faults(dialect: Dialect) -> dict[str, Any]:
    faulty = {f"question-{k}-é": {"type": "choice", "criteria": {f"o{j}": 1 for j in range(200)}} for k in range(60)}
    openai = [{"type": "choice", "choices": [{"value": 1}] * 200}] * 60
    return dialect.body | {"questions": openai if "input" in dialect.body else faulty}


async def ask(client: httpx.AsyncClient, dialect: Dialect, situation: str) -> httpx.Response:
    question = next(iter(dialect.body["questions"]))
    invalid: Any = [{"type": "score", "levels": []}] if "input" in dialect.body else {question: {"type": "choice"}}
    text = "input" if "input" in dialect.body else "state"
    match situation:
        case "not JSON":
            return await client.post(dialect.path, content=SECRET)
        case "unknown model":
            return await client.post(dialect.path, json=dialect.body | {"model": "nothing"})
        case "no route":
            return await client.post(dialect.missing, json=dialect.body)
        case "method":
            return await client.get(dialect.path)
        case "tokens":
            return await client.post(dialect.path, json=dialect.body | {text: f"{SECRET} " * 20_000})
        case "body":
            return await client.post(dialect.path, content=b" " * (13 * 1024 * 1024 + 1))
        case "encoding":
            return await client.post(dialect.path, json=dialect.body, headers={"content-encoding": "br"})
        case "invalid":
            return await client.post(dialect.path, json=dialect.body | {"questions": invalid})
        case "thousand faults":
            return await client.post(dialect.path, json=thousand_faults(dialect))
    return await client.post(dialect.path, json=dialect.body)


def check(app: FastAPI, dialect: Dialect, situation: str, response: httpx.Response) -> None:
    expected = dialect.of(situation)
    if expected[0] == 200:
        assert response.status_code == 200
        return
    assert (response.status_code, dialect.told(response.json())) == expected
    assert response.headers["content-type"] == "application/json"
    assert len(response.content) <= 4096
    assert SECRET not in response.text
    waits = STATUSES[situation] == 503
    assert (response.headers.get("retry-after"), response.headers.get("retry-after-ms")) == (
        ("1", "1000") if waits else (None, None)
    )
    if dialect.told is cloudflare:
        assert response.headers["cf-ray"] == response.headers["cf-ai-req-id"] == response.headers["x-request-id"]
    if situation not in ("no route", "method"):
        assert_documented(app, response, dialect.route)


@by_dialect
@pytest.mark.parametrize(
    "situation", ["not JSON", "unknown model", "tokens", "body", "encoding", "invalid", "thousand faults", "no route"]
)
async def test_what_clients_do_wrong(client: httpx.AsyncClient, app: FastAPI, name: str, situation: str) -> None:
    dialect = DIALECTS[name]
    check(app, dialect, situation, await ask(client, dialect, situation))
    assert (await client.post(dialect.path, json=dialect.body)).status_code == 200


@by_dialect
async def test_another_method(client: httpx.AsyncClient, app: FastAPI, name: str) -> None:
    response = await ask(client, DIALECTS[name], "method")
    check(app, DIALECTS[name], "method", response)
    assert response.headers["allow"] == "POST"


@by_dialect
@pytest.mark.parametrize(
    ("situation", "fault"),
    [
        ("overloaded", Overloaded("The queue is full.")),
        ("deadline", DeadlineExceeded("The deadline passed.")),
        ("ours", InternalError(f"CUDA error at /opt/{SECRET}.py")),
        ("bug", KeyError(SECRET)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_goes_wrong_here(
    client: httpx.AsyncClient, triton: FakeTriton, app: FastAPI, name: str, situation: str, fault: Exception
) -> None:
    triton.fault = lambda call: fault if call.request_id != "heartbeat" else None
    response = await ask(client, DIALECTS[name], situation)
    check(app, DIALECTS[name], situation, response)
    assert (response.headers["x-request-id"] in response.text) == (situation in ("ours", "bug"))


@by_dialect
async def test_a_body_that_does_not_arrive(ensemble: FakeEnsemble, name: str) -> None:
    dialect = DIALECTS[name]
    app = create_app(Settings(body_timeout_ms=1), FakeTriton(ensemble))

    class Never(httpx.AsyncByteStream):
        async def __aiter__(self) -> Any:
            await asyncio.sleep(0.05)
            yield b"{}"

    async with client_of(app) as client:
        await until_ready(client)
        response = await client.post(dialect.path, content=Never())
        check(app, dialect, "slow body", response)


@by_dialect
async def test_before_the_first_answer(ensemble: FakeEnsemble, name: str) -> None:
    dialect = DIALECTS[name]
    app = create_app(Settings(), FakeTriton(ensemble, up=False))
    async with client_of(app) as client:
        check(app, dialect, "overloaded", await client.post(dialect.path, json=dialect.body))


@by_dialect
async def test_over_the_number_in_flight(ensemble: FakeEnsemble, name: str) -> None:
    dialect, triton = DIALECTS[name], FakeTriton(ensemble)
    app = create_app(Settings(max_in_flight=1), triton)
    async with client_of(app) as client:
        await until_ready(client)
        triton.latency_s = 0.2
        first, second = await asyncio.gather(*(client.post(dialect.path, json=dialect.body) for _ in range(2)))
        assert first.status_code == 200
        check(app, dialect, "overloaded", second)


@pytest.mark.parametrize("path", ["/api/tags", "/api/ps", "/api/show"])
async def test_what_is_asked_about_models_before_the_first_answer(ensemble: FakeEnsemble, path: str) -> None:
    app = create_app(Settings(), FakeTriton(ensemble, up=False))
    async with client_of(app) as client:
        response = await client.request("POST" if path == "/api/show" else "GET", path, json={"model": "clef"})
        if path == "/api/ps":
            assert response.json() == {"models": []}
        else:
            assert (response.status_code, response.json()["code"]) == (503, "QUEUE_FULL")
            assert_documented(app, response)


def test_statuses_that_keys_and_rates_bring() -> None:
    """401, 403 and 429 look in each dialect as its clients know them."""

    def answer(path: str, status: int, error_type: str) -> tuple[int, Any]:
        kind = type("Refused", (ServiceError,), {"status": status, "error_type": error_type})
        response = render_for(path)(kind("No."), "request-id")
        return response.status_code, json.loads(response.body)

    rows = [(401, "authentication_error"), (403, "permission_error"), (429, "rate_limit_error")]
    cloudflare_rows = [answer("/client/v4/accounts/a/ai/run/@cf/cloudflare/clef", *row) for row in rows]
    assert [(status, content["errors"][0]["code"]) for status, content in cloudflare_rows] == [
        (401, 10000),
        (403, 10000),
        (429, 3040),
    ]
    for status, error_type in rows:
        content = {"code": status, "message": "No."}
        assert answer("/api/alpha/decisions", status, error_type) == (status, {"error": content})
        code = {401: "UNAUTHORIZED", 403: "FORBIDDEN", 429: "RATE_LIMITED"}[status]
        assert answer("/api/decide", status, error_type) == (status, {"error": "No.", "code": code})
        detail = {"error_type": error_type, "message": "No."}
        assert answer("/v1/systemone", status, error_type) == (status, {"detail": detail})
        assert answer("/api/v1/systemone", status, error_type) == (status, {"detail": detail, "error": content})
        openai_error = {"message": "No.", "type": error_type, "param": None, "code": None}
        assert answer("/v1/decisions", status, error_type) == (status, {"detail": detail, "error": openai_error})
