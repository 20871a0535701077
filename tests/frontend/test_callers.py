"""Keys as a client meets them: who may call, on every route."""

from __future__ import annotations

import httpx
import pytest

from frontend import keyfile
from frontend.app import create_app
from frontend.tiers import Tier
from tests.frontend.dialects import DIALECTS, by_dialect
from tests.frontend.fakes import FakeTriton
from tests.frontend.places import Place, ask
from tests.frontend.routes import ROUTES
from tests.frontend.running import assert_documented, body_of, client_of, until_ready

every_route = pytest.mark.parametrize("path", ROUTES)


async def test_without_a_key_file_every_header_is_taken(client: httpx.AsyncClient) -> None:
    for headers in ({}, {"authorization": "Bearer anything"}, {"authorization": "Basic eDp5"}):
        assert (await ask(client, headers)).status_code == 200


async def test_a_missing_and_a_wrong_key_are_401(place: Place, triton: FakeTriton) -> None:
    good = place.add("alice", tiers={"gold": Tier()})
    app = create_app(place.settings(), triton)
    async with client_of(app) as client:
        await until_ready(client)
        assert (await ask(client, good)).status_code == 200
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": good["authorization"] + "x"}):
            refused = await ask(client, headers)
            assert refused.status_code == 401
            assert refused.json()["detail"]["error_type"] == "authentication_error"
            assert refused.headers["www-authenticate"] == "Bearer"
            assert_documented(app, refused)
        assert len(triton.real_calls) == 1


@by_dialect
@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Basic eDp5", "Token x"])
async def test_a_header_without_a_key_is_401_though_callers_without_one_are_taken(
    place: Place, triton: FakeTriton, name: str, header: str
) -> None:
    place.add("alice")
    dialect = DIALECTS[name]
    app = create_app(place.settings(), triton)
    async with client_of(app) as client:
        await until_ready(client)
        assert (await client.post(dialect.path, json=dialect.body)).status_code == 200
        refused = await client.post(dialect.path, json=dialect.body, headers={"authorization": header})
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert "holds no key" in refused.text
    dialect.told(refused.json())
    assert_documented(app, refused, dialect.route)


async def test_a_callers_key_is_looked_at_before_its_body(place: Place, client: httpx.AsyncClient) -> None:
    headers = place.add("alice", tiers={"gold": Tier()})
    too_long = body_of(14 * 1024 * 1024)
    assert (await client.post("/v1/systemone", content=too_long)).status_code == 401
    assert (await client.post("/v1/systemone", content=too_long, headers=headers)).status_code == 413


async def test_a_key_is_taken_and_revoked_while_the_server_runs(place: Place, client: httpx.AsyncClient) -> None:
    assert (await ask(client)).status_code == 200
    headers = place.add("alice", tiers={"gold": Tier()})
    assert [(await ask(client, sent)).status_code for sent in ({}, headers)] == [401, 200]
    keyfile.write(place.keys, keyfile.read(place.keys).without_key("alice"))
    assert (await ask(client, headers)).status_code == 401


async def test_health_metrics_and_models_need_no_key(place: Place, client: httpx.AsyncClient) -> None:
    place.add("alice", tiers={"gold": Tier()})
    for path in ("/health", "/metrics", "/v1/models", "/openapi.json"):
        assert (await client.get(path)).status_code == 200


@every_route
async def test_every_route_asks_for_the_key_and_holds_the_rate(
    place: Place, client: httpx.AsyncClient, path: str
) -> None:
    headers = place.add("slow", "slow", tiers={"slow": Tier(decisions_per_minute=2)})
    body, _ = ROUTES[path]
    statuses = [(await client.post(path, json=body, headers=sent)).status_code for sent in ({}, headers, headers)]
    assert statuses == [401, 200, 200]
    over = await client.post(path, json=body, headers=headers)
    assert over.status_code == 429
    assert 0 < int(over.headers["retry-after"]) <= 61


@every_route
async def test_every_route_applies_the_tier(
    place: Place, triton: FakeTriton, client: httpx.AsyncClient, path: str
) -> None:
    headers = place.add("alice", "cut", tiers={"cut": Tier(questions=5, tokens=4_000, body_bytes=10_000)})
    response = await client.post(path, json=ROUTES[path][0], headers=headers)
    assert response.status_code == 200
    sent = triton.real_calls[-1].parameters
    assert sent.items() >= {"max_questions": 5, "max_length": 4_000, "max_body_bytes": 10_000}.items()
    assert (await client.post(path, content=b"[" + b" " * 10_000, headers=headers)).status_code == 413
