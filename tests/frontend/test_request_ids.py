from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.frontend.fakes import FakeTriton
from tests.frontend.running import NOUL

BOTH = ("x-request-id", "x-typesafe-request-id")


@pytest.mark.parametrize("header", BOTH)
@pytest.mark.parametrize("sent", ["a", "Abc-1.2_3", "x" * 128])
async def test_a_sane_id_is_kept_and_reaches_triton(
    client: httpx.AsyncClient, triton: FakeTriton, header: str, sent: str
) -> None:
    response = await client.post("/v1/systemone", json=NOUL, headers={header: sent})
    assert [response.headers[name] for name in BOTH] == [sent, sent]
    assert triton.real_calls[-1].request_id == sent


@pytest.mark.parametrize(
    "sent", ["", "x" * 129, "a b", "a\tb", "é".encode(), "<script>", "a/b", 'a"b', "a,b", "heartbeat"]
)
async def test_any_other_is_replaced(client: httpx.AsyncClient, triton: FakeTriton, sent: Any) -> None:
    response = await client.post("/v1/systemone", json=NOUL, headers={"x-request-id": sent})
    assert re.fullmatch("[0-9a-f]{32}", response.headers["x-request-id"])
    assert triton.real_calls[-1].request_id == response.headers["x-request-id"]


async def test_an_insane_one_does_not_hide_a_sane_one(client: httpx.AsyncClient) -> None:
    response = await client.get("/health", headers={"x-request-id": "a b", "x-typesafe-request-id": "mine"})
    assert [response.headers[name] for name in BOTH] == ["mine", "mine"]


async def test_every_answer_has_one_and_no_two_are_equal(client: httpx.AsyncClient) -> None:
    seen = set()
    for method, path in (
        ("POST", "/v1/systemone"),
        ("GET", "/v1/models"),
        ("GET", "/health"),
        ("GET", "/healthz"),
        ("GET", "/"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
        ("GET", "/no-such-route"),
        ("PUT", "/v1/systemone"),
    ):
        response = await client.request(method, path)
        assert response.headers.get_list("x-request-id") == response.headers.get_list("x-typesafe-request-id")
        seen.add(response.headers["x-request-id"])
    assert len(seen) == 9
