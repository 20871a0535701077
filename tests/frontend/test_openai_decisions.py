from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from frontend.documents import REQUEST_EXAMPLES
from frontend.openai_types import EXAMPLE
from tests.frontend.fakes import FakeTriton
from tests.frontend.running import NOUL, assert_documented
from tests.frontend.test_assets import multipart
from tests.golden_cases import CASES
from tests.invariants import assert_answer

PATH = "/v1/decisions"
ASKED = {"input": "All is well.", "questions": [{"type": "predicate", "name": "q", "instructions": "Is it down?"}]}
FIRST, SECOND = CASES["two-images"]["request"]["images"]


def theirs(questions: dict[str, Any]) -> list[dict[str, Any]]:
    """SystemOne's questions as OpenAI writes them."""
    written = []
    for name, question in questions.items():
        asked = {"name": name, "instructions": question.get("instructions") or name}
        criteria = question.get("criteria")
        if question["type"] == "choice":
            choices = [{"value": key} | ({"description": text} if text else {}) for key, text in criteria.items()]
            written.append(asked | {"type": "choice", "choices": choices})
        elif question["type"] == "score":
            written.append(asked | {"type": "score", "levels": [{"label": level} for level in criteria]})
        else:
            written.append(asked | {"type": "predicate"})
    return written


@pytest.mark.parametrize("name", ["three-types", "unicode", "null-descriptions", "255-options", "64-questions"])
async def test_says_what_systemone_says(client: httpx.AsyncClient, triton: FakeTriton, app: FastAPI, name: str) -> None:
    request = CASES[name]["request"]
    response = await client.post(PATH, json={"input": request["state"], "questions": theirs(request["questions"])})
    assert response.status_code == 200
    assert_documented(app, response)
    expected = (await client.post("/v1/systemone", json=request)).json()["answers"]
    answers = response.json()["answers"]
    assert [answer["name"] for answer in answers] == list(expected)
    for answer in answers:
        same = expected[answer["name"]]
        if same["type"] == "noul":
            assert (answer["type"], answer["probability"]) == ("predicate", same["noul"])
            continue
        assert answer["type"] == same["type"]
        assert answer[same["type"]] == same[same["type"]]
        assert answer["confidence"] == same["confidence"]
        assert [item["probability"] for item in answer["probabilities"]] == list(same["probabilities"].values())
        if same["type"] == "choice":
            assert [item["value"] for item in answer["probabilities"]] == list(same["probabilities"])
        else:
            assert [item["label"] for item in answer["probabilities"]] == list(same["legend"].values())


async def test_the_documents_example_is_answered(client: httpx.AsyncClient, app: FastAPI) -> None:
    response = await client.post(PATH, json=EXAMPLE["value"])
    assert response.status_code == 200
    assert [answer["type"] for answer in response.json()["answers"]] == ["predicate", "choice", "score"]
    assert {"x-model-revision", "x-batch-size", "server-timing"} < set(response.headers)
    assert_documented(app, response)


@pytest.mark.parametrize("example", REQUEST_EXAMPLES)
async def test_any_other_body_is_systemones(
    client: httpx.AsyncClient, triton: FakeTriton, app: FastAPI, example: str
) -> None:
    request = REQUEST_EXAMPLES[example]["value"]
    response = await client.post(PATH, json=request)
    assert response.status_code == 200
    assert_answer(request, response.json())
    assert response.content == (await client.post("/v1/systemone", json=request)).content
    assert_documented(app, response)


async def test_systemones_body_goes_on_as_it_came(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    body = b' {"state" : 1e+22 ,"input":1,"questions":{"q":{"type":"noul"}}}\n'
    assert (await client.post(PATH, content=body)).status_code == 200
    assert triton.real_calls[-1].body == body


async def test_systemones_images_may_be_parts(client: httpx.AsyncClient) -> None:
    mark = f"<image:{'1' * 32}>"
    request = {**NOUL, "state": mark, "assets": {mark: {"type": "image", "part": "asset-0"}}}
    file = (await client.get("/docs")).content
    headers = {"content-type": "multipart/form-data; boundary=0123456789abcdef0123456789abcdef"}
    response = await client.post(PATH, content=multipart(request, file), headers=headers)
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"][:2] == ["body", "images"]


async def test_images_are_seen(client: httpx.AsyncClient) -> None:
    image = {"type": "input_image", "image_url": FIRST}
    content = [{"type": "input_text", "text": "See:"}, image]
    response = await client.post(PATH, json={**ASKED, "input": [{"role": "user", "content": content}]})
    expected = await client.post(
        "/v1/systemone",
        json={
            "state": ["See:", "image 1"],
            "images": [FIRST],
            "questions": {"q": {"type": "noul", "instructions": "Is it down?"}},
        },
    )
    assert response.status_code == 200
    assert response.json()["usage"]["input_tokens"] == expected.json()["usage"]["input_tokens"]
    assert response.json()["answers"][0]["probability"] == expected.json()["answers"]["q"]["noul"]


async def test_a_boolean_stays_one(client: httpx.AsyncClient) -> None:
    question = {"type": "choice", "instructions": "?", "choices": [{"value": False}, {"value": True}]}
    response = await client.post(PATH, json={"input": "s", "questions": [question]})
    (answer,) = response.json()["answers"]
    assert answer["choice"] is True
    assert [item["value"] for item in answer["probabilities"]] == [False, True]


async def test_options_keep_their_order(client: httpx.AsyncClient) -> None:
    question = {"type": "choice", "instructions": "?", "choices": [{"value": value} for value in ("b", "10", "2", "a")]}
    response = await client.post(PATH, json={"input": "s", "questions": [question]})
    assert [item["value"] for item in response.json()["answers"][0]["probabilities"]] == ["b", "10", "2", "a"]


@pytest.mark.parametrize(
    ("fields", "status", "param", "code"),
    [
        ({"model": "canary7261"}, 400, "model", "model_not_found"),
        ({"model": 5}, 422, "model", None),
        ({"questions": []}, 422, "questions", None),
        ({"questions": {}}, 422, "questions", None),
        ({"questions": None}, 422, "questions", None),
        ({"questions": [{"type": "choice", "choices": [{"value": 1}]}]}, 422, "questions[0].choices[0].value", None),
        ({"questions": [{"type": "predicate"}] * 65}, 422, "questions", None),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://h/canary7261"}]}]},
            422,
            "input[0].content[0].image_url",
            None,
        ),
        ({"input": "canary7261 " * 20_000}, 413, None, None),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": FIRST}] * 5}]}, 413, None, None),
    ],
)
async def test_refusals(
    client: httpx.AsyncClient,
    app: FastAPI,
    fields: dict[str, Any],
    status: int,
    param: str | None,
    code: str | None,
) -> None:
    response = await client.post(PATH, json={**ASKED, **fields})
    assert response.status_code == status
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert (error["param"], error["code"]) == (param, code)
    assert error["type"] == ("request_too_large" if status == 413 else "invalid_request_error")
    assert "7261" not in response.text
    assert_documented(app, response)


async def test_a_long_question_that_the_ensemble_refuses_is_found_where_it_stands(client: httpx.AsyncClient) -> None:
    questions = [{"type": "predicate", "instructions": "x" * 70_000}, {"type": "predicate", "instructions": [[]] * 3}]
    response = await client.post(PATH, json={"input": "s", "questions": questions})
    assert response.status_code == 422
    assert response.json()["error"]["param"].startswith("questions[1].instructions[0]")


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"a":1,"a":1}', b'{"a":' + b"[" * 70 + b"]" * 70 + b"}"])
async def test_before_the_shape_is_known_both_are_answered(
    client: httpx.AsyncClient, app: FastAPI, body: bytes
) -> None:
    response = await client.post(PATH, content=body)
    assert response.status_code in (400, 422)
    assert set(response.json()) == {"detail", "error"}
    assert_documented(app, response)


async def test_systemones_errors_are_its_own(client: httpx.AsyncClient, app: FastAPI) -> None:
    bodies = (
        {"state": 1, "questions": {}},
        {"state": 1, "input": 1, "questions": {}},
        {"state": 1, "input": 1},
        {"input": 1, "questions": {"q": {"type": "noul"}}},
        {**NOUL, "model": "canary7261"},
    )
    for body in bodies:
        response = await client.post(PATH, json=body)
        assert set(response.json()) == {"detail"}
        assert response.content == (await client.post("/v1/systemone", json=body)).content
        assert_documented(app, response)


async def test_our_own_failures_wear_the_envelope_of_the_body(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    triton.fault = lambda call: KeyError("canary7261") if call.request_id != "heartbeat" else None
    for body, shape in ((ASKED, "error"), (NOUL, "detail")):
        response = await client.post(PATH, json=body)
        assert response.status_code == 500
        assert set(response.json()) == {shape}
        assert "canary" not in response.text and response.headers["x-request-id"] in json.dumps(response.json())
