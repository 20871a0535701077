"""A caller's rate as a client meets it."""

from __future__ import annotations

from contextlib import AsyncExitStack

import httpx

from frontend.app import create_app
from frontend.tiers import Tier
from tests.frontend.fakes import FakeTriton
from tests.frontend.places import Place, ask, opened, sample
from tests.frontend.running import NOUL, assert_documented, client_of, until_ready
from tests.frontend.servers import redis


async def test_over_the_rate_is_a_429_that_says_when_to_come_back(place: Place, triton: FakeTriton) -> None:
    slow, gold = place.add("slow", "slow"), place.add("gold")
    app = create_app(place.settings(), triton)
    async with client_of(app) as client:
        await until_ready(client)
        assert [(await ask(client, slow)).status_code for _ in range(2)] == [200, 200]
        refused = await ask(client, slow)
        assert refused.status_code == 429
        assert refused.json()["detail"]["error_type"] == "rate_limit_error"
        assert 58_000 < int(refused.headers["retry-after-ms"]) <= 60_001
        assert int(refused.headers["retry-after"]) in (59, 60, 61)
        assert_documented(app, refused)
        assert (await ask(client, gold)).status_code == 200, "another key has its own"
        assert await sample(client, "systemone_rate_limited_total") == 1


async def test_the_public_rate(place: Place, client: httpx.AsyncClient) -> None:
    place.add("alice")
    statuses = [(await ask(client)).status_code for _ in range(32)]
    assert statuses == [200] * 30 + [429] * 2


async def test_what_is_refused_for_its_content_counts_too(place: Place, client: httpx.AsyncClient) -> None:
    slow = place.add("slow", "slow")
    assert [(await ask(client, slow, questions={})).status_code for _ in range(3)] == [422, 422, 429]


async def test_each_item_of_a_batch_counts(place: Place, client: httpx.AsyncClient, triton: FakeTriton) -> None:
    headers = place.add("five", "five", tiers={"five": Tier(decisions_per_minute=5)})

    async def batch(items: int) -> int:
        return (await client.post("/v1/systemone/batch", json=[NOUL] * items, headers=headers)).status_code

    assert [await batch(3), await batch(3), await batch(2), await batch(1)] == [200, 429, 200, 429]
    assert len(triton.real_calls) == 5


async def test_a_batch_that_the_rate_never_has_room_for_is_403(place: Place, triton: FakeTriton) -> None:
    headers = place.add("five", "five", tiers={"five": Tier(decisions_per_minute=5)})
    app = create_app(place.settings(), triton)
    async with client_of(app) as client:
        await until_ready(client)
        refused = await client.post("/v1/systemone/batch", json=[NOUL] * 6, headers=headers)
    assert refused.status_code == 403
    assert refused.json()["detail"]["error_type"] == "permission_error"
    assert_documented(app, refused)


async def test_frontends_with_one_redis_hold_one_rate_and_answer_without_it(place: Place, triton: FakeTriton) -> None:
    slow = place.add("shared", "slow")
    with redis() as server:
        async with AsyncExitStack() as stack:
            settings = place.settings(rate_storage=server.url)
            clients = [await stack.enter_async_context(opened(settings, triton)) for _ in range(2)]
            assert [(await ask(client, slow)).status_code for client in clients] == [200, 200]
            assert [(await ask(client, slow)).status_code for client in clients] == [429, 429]
            server.stop()
            assert [(await ask(client, slow)).status_code for client in clients] == [200, 200]
            assert await sample(clients[0], "systemone_rate_storage_up") == 0
            server.start()
