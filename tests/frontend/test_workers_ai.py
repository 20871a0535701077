from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from frontend.errors import NotFound
from frontend.workers_ai import from_systemone, served_name, to_systemone
from preprocess.errors import ValidationFailed
from tests.frontend.fakes import FakeTriton
from tests.frontend.running import NOUL, assert_documented
from tests.golden_cases import CASES
from tests.invariants import assert_answer

TEMPLATE = "/client/v4/accounts/{account}/ai/run/@cf/cloudflare/{model}"
PATH = "/client/v4/accounts/0123abcd/ai/run/@cf/cloudflare/clef-flash"
NAMES = ("clef-flash", "@cf/cloudflare/clef")


def test_the_paths_model_among_the_servers_names() -> None:
    assert served_name("clef-flash", NAMES) == "clef-flash"
    assert served_name("clef", NAMES) == "@cf/cloudflare/clef"
    with pytest.raises(NotFound, match="@cf/cloudflare/clef"):
        served_name("clairic", NAMES)


@pytest.mark.parametrize("said", [{}, {"model": None}, {"model": "clef"}, {"model": " clef\n"}, {"model": NAMES[1]}])
def test_the_body_may_repeat_the_paths_model(said: dict[str, Any]) -> None:
    assert json.loads(to_systemone({**NOUL, **said}, "clef", "served"))["model"] == "served"


@pytest.mark.parametrize("said", ["clef-flash", "", "CLEF", 5, ["clef"]])
def test_another_model_is_refused(said: Any) -> None:
    with pytest.raises(ValidationFailed) as caught:
        to_systemone({**NOUL, "model": said}, "clef", "served")
    assert caught.value.detail[0]["loc"] == ["body", "model"]


def test_images_in_each_form() -> None:
    images = ["data:image/png;base64,AAAA", "AAAA", {"content_type": "image/png", "base64": "BBBB"}, {"url": "x"}, 5]
    asked = json.loads(to_systemone({**NOUL, "images": images}, "clef", "clef"))
    assert asked["images"] == ["data:image/png;base64,AAAA", "AAAA", "BBBB", {"url": "x"}, 5]


def test_numbers_and_the_order_of_keys_survive() -> None:
    body = b'{"state":[1250.0,1e+22,-0.0,123456789012345678901234567890],"questions":{"b":1,"a":{"10":1,"9":2}}}'
    assert to_systemone(json.loads(body), "clef", "clef") == body[:-1] + b',"model":"clef"}'


def test_a_golden_answer_in_its_envelope() -> None:
    case = CASES["three-types"]
    content = json.loads(from_systemone(json.dumps(case["reference"]["response"]).encode()))
    assert content == {"result": case["reference"]["response"], "success": True, "errors": [], "messages": []}


@pytest.mark.parametrize("name", ["three-types", "question-ids", "state-float", "255-options", "two-images"])
async def test_the_result_is_the_ensembles_answer(
    client: httpx.AsyncClient, triton: FakeTriton, app: FastAPI, name: str
) -> None:
    request = CASES[name]["request"]
    response = await client.post(PATH, json=request)
    assert response.status_code == 200
    assert list(response.json()) == ["result", "success", "errors", "messages"]
    assert response.json()["success"] is True
    assert response.json()["errors"] == response.json()["messages"] == []
    assert_answer(request, response.json()["result"])
    assert triton.ensemble(triton.real_calls[-1].body, [], {}).response in response.content
    assert response.headers["cf-ray"] == response.headers["cf-ai-req-id"] == response.headers["x-request-id"]
    assert {"x-model-revision", "x-batch-size", "server-timing"} < set(response.headers)
    assert_documented(app, response, TEMPLATE)


async def test_options_keep_their_order_in_the_bytes(client: httpx.AsyncClient) -> None:
    question = {"type": "choice", "instructions": "Which?", "criteria": {"b": None, "10": None, "2": None, "a": None}}
    response = await client.post(PATH, json={"state": "s", "questions": {"q": question}})
    positions = [response.content.index(b'"%s":0.' % option) for option in (b"b", b"10", b"2", b"a")]
    assert positions == sorted(positions)


async def test_an_image_with_its_content_type_is_seen(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    url = CASES["image-jpeg"]["request"]["images"][0]
    pair = {"content_type": "image/png", "base64": url.partition(",")[2]}
    with_url = await client.post(PATH, json={**NOUL, "images": [url]})
    with_pair = await client.post(PATH, json={**NOUL, "images": [pair]})
    assert with_url.status_code == with_pair.status_code == 200
    assert with_pair.json() == with_url.json()
    assert with_pair.json()["result"]["usage"]["input_tokens"] > 290


FORMS = 'images.0: Image should be a data URL, base64, or an object {"content_type": media type, "base64": base64}'


@pytest.mark.parametrize(
    ("fields", "status", "code", "beginning"),
    [
        ({"questions": None}, 400, 5006, "questions: "),
        ({"questions": {}}, 400, 5006, "questions: "),
        ({"questions": {"q": {"type": "box"}}}, 400, 5006, "questions.q: "),
        ({"questions": {"q": {"instructions": "?"}}}, 400, 5006, "questions.q: "),
        ({"questions": {f"q{k}": {"type": "noul"} for k in range(65)}}, 422, 5012, "questions: "),
        ({"questions": {"q": {"type": "score", "criteria": []}}}, 422, 5012, "questions.q.score.criteria: "),
        ({"model": "clef"}, 422, 5012, "model: "),
        ({"images": ["AAAA"]}, 422, 5012, "images.0: "),
        ({"images": [{"content_type": "image/png", "base64": 5}]}, 422, 5012, FORMS),
        ({"images": [{"content_type": "image/png"}]}, 422, 5012, FORMS),
        ({"images": [5], "state": "x" * 70_000}, 422, 5012, FORMS),
        ({"images": [base64.b64encode(b"x").decode()] * 5}, 413, 5021, "The request has 5 images"),
        ({"state": "canary7261 " * 20_000}, 413, 5021, ""),
    ],
)
async def test_refusals(
    client: httpx.AsyncClient, app: FastAPI, fields: dict[str, Any], status: int, code: int, beginning: str
) -> None:
    response = await client.post(PATH, json={**NOUL, **fields})
    assert response.status_code == status
    (error,) = response.json()["errors"]
    assert error["code"] == code
    assert error["message"].startswith(beginning)
    assert "canary" not in response.text
    assert_documented(app, response, TEMPLATE)


async def test_a_model_that_is_not_served_is_no_route(client: httpx.AsyncClient, app: FastAPI) -> None:
    response = await client.post(PATH.replace("clef-flash", "clairic"), json=NOUL)
    assert response.status_code == 400
    assert response.json()["errors"][0]["code"] == 7000
    assert "@cf/cloudflare/clef-flash" in response.json()["errors"][0]["message"]
    assert_documented(app, response, TEMPLATE)


async def test_the_paths_at_sign_may_be_escaped(client: httpx.AsyncClient) -> None:
    path = "/client/v4/accounts/a/ai/run/%40cf%2Fcloudflare%2Fclef"
    assert (await client.post(path, json=NOUL)).json()["result"]["model"] == "clef"
