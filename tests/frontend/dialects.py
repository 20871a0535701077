"""The dialects of their own: how each is asked, and how it says every kind of error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.frontend.running import NOUL, assert_documented

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
