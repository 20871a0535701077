"""What goes wrong here, in every dialect: a full, starting or failing server."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from fastapi import FastAPI

from frontend.app import create_app
from frontend.settings import Settings
from preprocess.errors import DeadlineExceeded, InternalError, Overloaded
from tests.frontend.dialects import DIALECTS, SECRET, ask, by_dialect, check
from tests.frontend.fakes import FakeEnsemble, FakeTriton
from tests.frontend.running import assert_documented, client_of, until_ready


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
