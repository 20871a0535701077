from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from frontend.openrouter import EXAMPLES, served_name, to_systemone
from preprocess.errors import InvalidRequest
from tests.frontend.fakes import FakeTriton
from tests.frontend.running import NOUL, assert_documented
from tests.golden_cases import CASES
from tests.invariants import assert_answer

PATH = "/api/alpha/decisions"
NAMES = ("clef-flash", "jev-latest", "acme/own")
FIRST, SECOND = CASES["two-images"]["request"]["images"]


def image(url: Any, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("clef-flash", "clef-flash"),
        ("cloudflare/clef-flash", "clef-flash"),
        ("typesafe/jev-latest", "jev-latest"),
        ("~typesafe/jev-latest", "jev-latest"),
        ("acme/own", "acme/own"),
        ("acme/none", "acme/none"),
        ("none", "none"),
        ("", ""),
    ],
)
def test_names_with_a_vendor(model: str, name: str) -> None:
    assert served_name(model, NAMES) == name
    assert json.loads(to_systemone({**NOUL, "model": model}, NAMES).body)["model"] == name


def test_images_of_the_state_array() -> None:
    state = ["First", image(FIRST, detail="low"), {"nested": image(SECOND)}, image(SECOND), 5]
    asked = to_systemone({**NOUL, "state": state}, NAMES)
    request = json.loads(asked.body)
    assert request["state"] == ["First", "image 1", {"nested": image(SECOND)}, "image 2", 5]
    assert request["images"] == [{"url": FIRST, "detail": "low"}, {"url": SECOND}]
    assert asked.move(["body", "images", 0]) == ["body", "state", 1, "image_url"]
    assert asked.move(["body", "images", 1, "x"]) == ["body", "state", 3, "image_url"]
    for elsewhere in (["body", "images", 2], ["body", "images"], ["body", "questions", "q"]):
        assert asked.move(elsewhere) == elsewhere
    assert state[1] == image(FIRST, detail="low")


@pytest.mark.parametrize("state", ["text", 5, None, [], {"type": "image_url"}, ["a", {"type": "text"}]])
def test_other_states_stay_as_they_are(state: Any) -> None:
    request = {**NOUL, "state": state}
    assert json.loads(to_systemone(request, NAMES).body) == request


@pytest.mark.parametrize("images", [[], ["x"], "x", {}])
def test_images_elsewhere_are_refused(images: Any) -> None:
    with pytest.raises(InvalidRequest, match="image_url"):
        to_systemone({**NOUL, "images": images}, NAMES)


@pytest.mark.parametrize("name", ["three-types", "question-ids", "state-float", "state-array"])
async def test_the_answer_is_the_ensembles_byte_for_byte(
    client: httpx.AsyncClient, triton: FakeTriton, app: FastAPI, name: str
) -> None:
    request = CASES[name]["request"]
    own = {"provider": {"only": ["x"]}, "session_id": "s", "trace": {}, "user": "u"}
    response = await client.post(PATH, json={**request, **own})
    assert response.status_code == 200
    assert_answer(request, response.json())
    assert response.content == triton.ensemble(json.dumps(request).encode(), [], {}).response
    assert {"x-model-revision", "x-batch-size", "server-timing"} < set(response.headers)
    assert_documented(app, response)


async def test_an_image_in_the_state_is_asked_like_one_beside_it(client: httpx.AsyncClient) -> None:
    inside = await client.post(PATH, json={**NOUL, "state": ["See:", image(FIRST)]})
    beside = await client.post("/v1/systemone", json={**NOUL, "state": ["See:", "image 1"], "images": [FIRST]})
    assert inside.status_code == 200
    assert inside.json() == beside.json()


@pytest.mark.parametrize("example", EXAMPLES)
async def test_the_documents_examples_are_answered(client: httpx.AsyncClient, example: str) -> None:
    assert (await client.post(PATH, json=EXAMPLES[example]["value"])).status_code == 200


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        (
            {"images": [FIRST]},
            400,
            'Images are items of the state array here: {"type": "image_url", "image_url": {"url": data URL}}.',
        ),
        ({"model": "canary/7261"}, 400, "Unknown model"),
        ({"model": 5}, 400, "model: "),
        ({"questions": {}}, 400, "questions: "),
        ({"questions": {"q": {"type": "box"}}}, 400, "questions.q: "),
        ({"state": ["x", image("http://127.0.0.1/canary7261")]}, 400, "state.1.image_url: "),
        ({"state": ["x", "y", image("data:image/png;base64,Y2FuYXJ5NzI2MQ==")]}, 400, "state.2.image_url: "),
        ({"state": ["x", {"type": "image_url"}]}, 400, "state.1.image_url: "),
        ({"state": ["x", image(None)]}, 400, "state.1.image_url: "),
        ({"state": [image(FIRST)] * 5}, 413, "The request has 5 images"),
        ({"state": "canary7261 " * 20_000}, 413, ""),
    ],
)
async def test_refusals(
    client: httpx.AsyncClient, app: FastAPI, fields: dict[str, Any], status: int, message: str
) -> None:
    response = await client.post(PATH, json={**NOUL, **fields})
    assert response.status_code == status
    assert set(response.json()) == {"error"}
    assert response.json()["error"]["code"] == status
    assert response.json()["error"]["message"].startswith(message)
    assert "7261" not in response.text
    assert_documented(app, response)


async def test_its_clients_read_systemones_errors_under_its_prefix(client: httpx.AsyncClient, app: FastAPI) -> None:
    response = await client.post("/api/v1/systemone", json={**NOUL, "model": "canary7261"})
    assert response.status_code == 400
    assert response.json()["error"] == {"code": 400, "message": response.json()["detail"]["message"]}
    assert_documented(app, response)
    invalid = await client.post("/api/v1/systemone", json={**NOUL, "questions": {}})
    assert invalid.status_code == 422
    assert set(invalid.json()) == {"detail"}
    assert_documented(app, invalid)
