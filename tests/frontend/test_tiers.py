"""What a tier allows."""

from __future__ import annotations

import httpx

from frontend.tiers import Tier
from tests.frontend.fakes import FakeEnsemble, FakeTriton
from tests.frontend.places import Place, ask, opened, questions
from tests.frontend.running import body_of


async def test_the_public_tiers_questions(place: Place, client: httpx.AsyncClient) -> None:
    headers = place.add("alice")
    assert (await ask(client, questions=questions(16))).status_code == 200
    refused = await ask(client, questions=questions(17))
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["loc"] == ["body", "questions"]
    assert "16" in refused.json()["detail"][0]["msg"]
    assert (await ask(client, headers, questions=questions(17))).status_code == 200


async def test_a_tiers_limits_go_with_the_request_to_the_ensemble(
    place: Place, client: httpx.AsyncClient, triton: FakeTriton
) -> None:
    headers = place.add("alice")
    await ask(client)
    assert triton.real_calls[-1].parameters == {"max_questions": 16, "max_images": 1, "max_length": 8192}
    await ask(client, headers)
    assert triton.real_calls[-1].parameters == {}


async def test_a_long_body_meets_the_tiers_limits_too(place: Place, client: httpx.AsyncClient) -> None:
    place.add("alice")
    short = await client.post("/v1/systemone", content=body_of(3_000, questions=questions(17)))
    long = await client.post("/v1/systemone", content=body_of(100_000, questions=questions(17)))
    assert short.status_code == long.status_code == 422
    assert short.content == long.content


async def test_a_tiers_tokens(place: Place, client: httpx.AsyncClient) -> None:
    headers = place.add("short", "short", tiers={"short": Tier(tokens=300)})
    assert (await ask(client, headers)).status_code == 200
    refused = await ask(client, headers, state="word " * 400)
    assert refused.status_code == 413
    assert "300" in refused.json()["detail"]["message"]


async def test_a_tiers_body(place: Place, client: httpx.AsyncClient) -> None:
    headers = place.add("small", "small", tiers={"small": Tier(body_bytes=2_000)})
    for size, status in ((2_000, 200), (2_001, 413)):
        response = await client.post("/v1/systemone", content=body_of(size), headers=headers)
        assert response.status_code == status
    assert "2000" in response.json()["detail"]["message"]


async def test_a_tier_raises_no_limit_of_the_server(place: Place) -> None:
    headers = place.add("large", "large", tiers={"large": Tier(questions=255)})
    async with opened(place.settings(), FakeTriton(FakeEnsemble(max_questions=3))) as client:
        assert (await ask(client, headers, questions=questions(3))).status_code == 200
        assert (await ask(client, headers, questions=questions(4))).status_code == 422
