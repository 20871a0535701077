from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest

from frontend.logs import JsonLines
from tests.frontend.fakes import FakeTriton
from tests.frontend.running import NOUL

SECRET = "canary7261"


def access_lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    formatter = JsonLines()
    return [json.loads(formatter.format(record)) for record in caplog.records if record.name == "frontend.access"]


async def test_one_line_a_request(
    client: httpx.AsyncClient, triton: FakeTriton, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "frontend"):
        answer = await client.post("/v1/systemone", json=NOUL, headers={"x-request-id": "mine"})
    tokens = answer.json()["usage"]["input_tokens"]
    (line,) = access_lines(caplog)
    assert line.pop("time").endswith("Z")
    assert line.pop("ms") > 0
    assert line == {
        "level": "info",
        "logger": "frontend.access",
        "message": "request",
        "request_id": "mine",
        "method": "POST",
        "route": "/v1/systemone",
        "status": 200,
        "dialect": "systemone",
        "key": None,
        "questions": 1,
        "images": 0,
        "tokens": tokens,
        "model": "clef-flash",
        "batch_size": 3,
        "queue_ms": 0.5,
        "preprocess_ms": 1.25,
        "compute_ms": 2.5,
        "postprocess_ms": 0.25,
    }


async def test_a_good_probe_leaves_no_line(
    client: httpx.AsyncClient, triton: FakeTriton, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "frontend"):
        for path in ("/health", "/healthz", "/metrics", "/health?x=1", "/v1/models", "/nowhere"):
            await client.get(path)
        await client.post("/health")
    assert [(line["route"], line["status"]) for line in access_lines(caplog)] == [
        ("/v1/models", 200),
        (None, 404),
        ("/health", 405),
    ]


async def test_nothing_that_a_client_sent_is_written(
    client: httpx.AsyncClient, triton: FakeTriton, caplog: pytest.LogCaptureFixture
) -> None:
    triton.fault = lambda call: KeyError(SECRET) if b"boom" in call.body else None
    with caplog.at_level(logging.INFO):
        for body in (
            {**NOUL, "state": SECRET},
            {"state": SECRET, "questions": {SECRET: {"type": SECRET}}},
            {**NOUL, "model": SECRET},
            {**NOUL, "state": f"{SECRET} boom"},
        ):
            await client.post(f"/v1/systemone?{SECRET}", json=body, headers={"x-secret": SECRET})
        await client.post("/v1/systemone", content=SECRET.encode())
        await client.get(f"/{SECRET}")
    formatter = JsonLines()
    ours = [formatter.format(record) for record in caplog.records if record.name.startswith("frontend")]
    assert len(ours) == 7
    assert not [line for line in ours if SECRET in line]
    assert [line["status"] for line in access_lines(caplog)] == [200, 422, 400, 500, 422, 404]
    (failure,) = [json.loads(line) for line in ours if '"error"' in line]
    assert failure["exception"] == "KeyError"
    assert any("fakes.py" in place for place in failure["at"])


def test_a_line_is_one_line() -> None:
    record = logging.LogRecord("name", logging.INFO, "file", 1, "two\nlines", None, None)
    formatted = JsonLines().format(record)
    assert "\n" not in formatted
    assert json.loads(formatted)["message"] == "two\nlines"
