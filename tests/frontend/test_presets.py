from __future__ import annotations

import httpx
from fastapi import FastAPI

from preprocess.presets import PRESETS
from tests.frontend.running import assert_documented
from tests.invariants import assert_answer


async def test_each_that_is_listed_can_be_asked(client: httpx.AsyncClient, app: FastAPI) -> None:
    listed = await client.get("/api/presets")
    assert listed.status_code == 200
    assert_documented(app, listed)
    assert [preset["name"] for preset in listed.json()["presets"]] == list(PRESETS)
    for preset in listed.json()["presets"]:
        answer = await client.post("/v1/systemone", json={"state": "Hello.", "x_preset": preset["name"]})
        assert answer.status_code == 200
        assert_answer(preset, answer.json())


async def test_unknown(client: httpx.AsyncClient, app: FastAPI) -> None:
    answer = await client.post("/v1/systemone", json={"state": "Hello.", "x_preset": "canary7261"})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "x_preset"]
    assert "canary" not in answer.text
    assert_documented(app, answer)
