"""What clients do wrong, in every dialect: its status, its shape, its size, its headers, and nothing of the request."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from frontend.app import create_app
from frontend.envelopes import render_for
from frontend.settings import Settings
from preprocess.errors import ServiceError
from tests.frontend.dialects import DIALECTS, ask, by_dialect, check
from tests.frontend.fakes import FakeEnsemble, FakeTriton
from tests.frontend.running import client_of, until_ready


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
