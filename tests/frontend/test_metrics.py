"""The metrics as an operator reads them."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest

from tests.frontend.fakes import FakeTriton
from tests.frontend.places import SECRET, Place, ask, opened, sample
from tests.frontend.running import NOUL, until_ready


async def test_metrics_count_requests_by_dialect_and_status(client: httpx.AsyncClient) -> None:
    tokens = (await ask(client)).json()["usage"]["input_tokens"]
    await ask(client, questions={})
    await client.get("/no-such-route")
    assert await sample(client, "systemone_requests_total", dialect="systemone", status="200") == 1
    assert await sample(client, "systemone_requests_total", dialect="systemone", status="422") == 1
    assert await sample(client, "systemone_request_seconds_count", dialect="systemone") == 2
    assert await sample(client, "systemone_step_seconds_sum", step="compute") == pytest.approx(0.0025)
    assert await sample(client, "systemone_batch_records_sum") == 3
    assert await sample(client, "systemone_input_tokens_total") == tokens
    async with asyncio.timeout(10):
        while await sample(client, "systemone_usage_rows_written_total") != 2:
            await asyncio.sleep(0.05)
    assert await sample(client, "systemone_usage_rows_dropped_total") == 0


async def test_metrics_tell_what_is_in_flight(place: Place, triton: FakeTriton) -> None:
    async with opened(place.settings(), triton) as client:
        triton.latency_s = 1.0
        running = asyncio.create_task(ask(client))
        while not triton.real_calls:
            await asyncio.sleep(0.01)
        assert await sample(client, "systemone_in_flight") == 1
        assert (await running).status_code == 200
        assert await sample(client, "systemone_in_flight") == 0


async def test_metrics_have_a_bounded_set_of_labels(place: Place, client: httpx.AsyncClient) -> None:
    keys = [place.add(f"key{number}") for number in range(3)]
    for headers in keys:
        await ask(client, headers)
        await client.post(f"/v1/{SECRET}", json=NOUL, headers=headers)
        await ask(client, headers, model=SECRET)
    response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    labels = {name for name, _ in re.findall(r'(\w+)="([^"]*)"', response.text)}
    assert labels == {"dialect", "status", "step", "le"}
    assert SECRET not in response.text and "key1" not in response.text


async def test_metrics_say_whether_answers_come(place: Place, triton: FakeTriton) -> None:
    async with opened(place.settings(health_interval_ms=50, health_timeout_ms=500), triton) as client:
        assert await sample(client, "systemone_ready") == 1
        triton.up = False
        await until_ready(client, ready=False)
        assert await sample(client, "systemone_ready") == 0
