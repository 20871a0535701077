from __future__ import annotations

import re

import httpx
from fastapi import FastAPI

from tests.frontend.fakes import FakeTriton
from tests.frontend.running import assert_documented


async def test_lists_the_model_and_its_aliases(client: httpx.AsyncClient, triton: FakeTriton, app: FastAPI) -> None:
    response = await client.get("/v1/models")
    assert response.status_code == 200
    assert_documented(app, response)
    assert triton.model is not None
    listed = response.json()
    names = [model["name"] for model in listed["models"]]
    assert names[0] == "clef-flash"
    assert {"clef", "jev-latest", "clef:flash", "@cf/cloudflare/clef-flash"} < set(names)
    assert len(names) == len(set(names))
    for model in listed["models"]:
        assert model["x_revision"] == listed["x_revision"] == triton.model.revision
        assert "mean nothing" in model["description"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", model["release_date"])


async def test_shows_the_settings_behind_the_answers(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/v1/models")).json()
    assert listed["x_settings"]["semantics"] == "joint"
    assert listed["x_settings"]["confidence"] == "top"
    assert listed["x_limits"]["max_questions"] == 64
    assert listed["x_limits"]["max_body_bytes"] == 13 * 1024 * 1024


async def test_the_index_points_to_the_documents(client: httpx.AsyncClient) -> None:
    response = await client.get("/")
    assert response.status_code == 200
    assert "/docs" in response.text
    assert (await client.get("/docs")).status_code == 200
