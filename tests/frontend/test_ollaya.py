from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from frontend.ollaya import ModelNotFound, canonical, from_systemone, served_name, to_systemone
from preprocess.errors import ValidationFailed
from tests.frontend.fakes import FakeTriton
from tests.frontend.running import NOUL, assert_documented, until_ready
from tests.golden_cases import CASES, RELEASE
from tests.invariants import assert_answer

CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text("utf-8")
NAMES = ("clef-flash", "clef", "clef:flash")
OWN = [
    "routing",
    "state_truncated",
    "done_reason",
    "created_at",
    "total_duration",
    "load_duration",
    "eval_duration",
]


def test_names_with_their_tag() -> None:
    assert canonical("clef") == "clef:latest"
    assert canonical("clef:flash") == "clef:flash"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (None, "clef-flash"),
        ("clef", "clef"),
        ("clef:latest", "clef"),
        (" Clef-Flash:LATEST ", "clef-flash"),
        ("clef:flash", "clef:flash"),
    ],
)
def test_which_model_is_meant(said: str | None, name: str) -> None:
    assert served_name(said, NAMES) == name


@pytest.mark.parametrize("said", ["laya", "clef:xl", "clef-flash:latest:latest", "", ":latest"])
def test_a_model_that_is_not_here(said: str) -> None:
    with pytest.raises(ModelNotFound) as caught:
        served_name(said, NAMES)
    assert caught.value.detail["message"] == f'model "{said}" not found, try pulling it first'


def test_a_name_without_end_is_not_repeated_at_length() -> None:
    assert len(str(ModelNotFound("x" * 10_000))) < 200


def test_a_models_name_is_a_string() -> None:
    with pytest.raises(ValidationFailed):
        served_name(5, NAMES)


@pytest.mark.parametrize(
    ("criteria", "written"),
    [
        (["b", "10", "b", "2"], {"b": None, "10": None, "2": None}),
        ([], {}),
        ({"a": "A"}, {"a": "A"}),
        (["a", 5], ["a", 5]),
        ("a", "a"),
        (None, None),
    ],
)
def test_a_choice_may_list_its_labels(criteria: Any, written: Any) -> None:
    question = {"type": "choice", "criteria": criteria}
    asked = to_systemone({"state": "s", "questions": {"q": question}}, NAMES)
    assert json.loads(asked.body or b"")["questions"]["q"] == {"type": "choice", "criteria": written}


def test_a_scores_levels_stay_a_list() -> None:
    question = {"type": "score", "criteria": ["lo", "hi", "hi"]}
    asked = to_systemone({"state": "s", "questions": {"q": question, "r": 5}}, NAMES)
    assert json.loads(asked.body or b"")["questions"] == {"q": question, "r": 5}


@pytest.mark.parametrize("body", [{}, {"keep_alive": 0}, {"model": "clef", "state": None, "questions": None}])
def test_nothing_asked_is_a_load(body: dict[str, Any]) -> None:
    assert to_systemone(body, NAMES).body is None


@pytest.mark.parametrize("body", [{"state": ""}, {"questions": {}}, {"x_preset": "triage"}, {"state": 0}])
def test_a_part_of_a_question_is_none(body: dict[str, Any]) -> None:
    assert to_systemone(body, NAMES).body is not None


def test_an_answer_that_was_cut_says_so() -> None:
    golden = CASES["three-types"]["reference"]["response"]
    whole = from_systemone(json.dumps(golden).encode(), "clef:latest", total_ns=5, eval_ns=3)
    assert list(whole) == ["model", "answers", "usage", *OWN]
    assert whole["answers"] == golden["answers"] and whole["usage"] == golden["usage"]
    assert (whole["model"], whole["routing"], whole["done_reason"]) == ("clef:latest", None, "decide")
    assert (whole["total_duration"], whole["load_duration"], whole["eval_duration"]) == (5, 0, 3)
    assert whole["state_truncated"] is False
    cut = golden | {"x_state_truncated": {"kept": 3, "dropped": 4}}
    answer = from_systemone(json.dumps(cut).encode(), "clef:latest", total_ns=5, eval_ns=3)
    assert answer["state_truncated"] is True
    assert answer["x_state_truncated"] == {"kept": 3, "dropped": 4}


@pytest.mark.parametrize("name", ["three-types", "question-ids", "255-options", "two-images"])
async def test_decides(client: httpx.AsyncClient, app: FastAPI, name: str) -> None:
    request = CASES[name]["request"]
    response = await client.post("/api/decide", json={**request, "model": "clef:flash", "keep_alive": "10m"})
    assert response.status_code == 200
    content = response.json()
    assert content["model"] == "clef:flash"
    assert list(content)[3:] == OWN
    assert_answer(request, {name: value for name, value in content.items() if name not in OWN})
    assert content["eval_duration"] == 4_000_000
    assert content["total_duration"] > 0
    made = datetime.fromisoformat(content["created_at"])
    assert made.tzinfo is UTC and abs((datetime.now(UTC) - made).total_seconds()) < 60
    assert {"x-model-revision", "x-batch-size", "server-timing"} < set(response.headers)
    assert_documented(app, response)


async def test_labels_keep_their_order(client: httpx.AsyncClient) -> None:
    question = {"type": "choice", "criteria": ["b", "10", "2", "a"]}
    response = await client.post("/api/decide", json={"state": "s", "questions": {"q": question}})
    positions = [response.content.index(b'"%s":0.' % label) for label in (b"b", b"10", b"2", b"a")]
    assert positions == sorted(positions)


async def test_a_long_state_is_cut_here_and_refused_there(client: httpx.AsyncClient, app: FastAPI) -> None:
    request = {**NOUL, "state": "word " * 20_000}
    response = await client.post("/api/decide", json=request)
    assert response.status_code == 200
    assert response.json()["state_truncated"] is True
    cut = response.json()["x_state_truncated"]
    assert cut["dropped"] > 0 and 0 < cut["kept"] < 16_384
    assert_documented(app, response)
    assert (await client.post("/v1/systemone", json=request)).status_code == 413
    refused = await client.post("/api/decide", json={**request, "x_truncate": False})
    assert refused.status_code == 413
    assert refused.json()["code"] == "REQUEST_TOO_LARGE"


async def test_a_load_finds_the_model_there(client: httpx.AsyncClient, triton: FakeTriton, app: FastAPI) -> None:
    response = await client.post("/api/decide", json={"model": "clef", "keep_alive": -1})
    assert response.status_code == 200
    assert response.json()["model"] == "clef:latest"
    assert response.json()["answers"] == {}
    assert response.json()["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert response.json()["done_reason"] == "load"
    assert triton.real_calls == []
    assert_documented(app, response)


@pytest.mark.parametrize(
    ("body", "status", "code", "text"),
    [
        ({**NOUL, "model": "laya:en"}, 404, "MODEL_NOT_FOUND", 'model "laya:en" not found, try pulling it first'),
        ({"model": "laya"}, 404, "MODEL_NOT_FOUND", 'model "laya" not found, try pulling it first'),
        ({**NOUL, "stream": True}, 422, "INVALID_REQUEST", "stream: A decision is not streamed"),
        ({**NOUL, "stream": 0}, 422, "INVALID_REQUEST", "stream: A decision is not streamed"),
        ({**NOUL, "questions": {}}, 422, "INVALID_REQUEST", "questions: Input should not be empty"),
        ({**NOUL, "model": 5}, 422, "INVALID_REQUEST", "model: Input should be a valid string"),
        ({"state": "s"}, 422, "INVALID_REQUEST", "questions: Field required"),
    ],
)
async def test_refusals(
    client: httpx.AsyncClient, app: FastAPI, body: dict[str, Any], status: int, code: str, text: str
) -> None:
    response = await client.post("/api/decide", json=body)
    assert response.status_code == status
    assert (response.json()["error"], response.json()["code"]) == (text, code)
    assert ("detail" in response.json()) == (status == 422)
    assert_documented(app, response)


async def test_where_the_issues_are_long_the_text_says_them_all(client: httpx.AsyncClient, app: FastAPI) -> None:
    questions = {f"question-{i}": {"type": "choice", "criteria": {f"o{j}": 1 for j in range(9)}} for i in range(60)}
    response = await client.post("/api/decide", json={"state": 1, "questions": questions})
    assert response.status_code == 422
    assert set(response.json()) == {"error", "code"}
    assert response.json()["error"].endswith("more")
    assert len(response.content) <= 4096
    assert_documented(app, response)


async def test_json_whatever_the_content_type(client: httpx.AsyncClient) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    for path in ("/api/decide", "/api/show"):
        assert (await client.post(path, content=json.dumps(NOUL), headers=headers)).status_code == 200


async def test_tags(client: httpx.AsyncClient, triton: FakeTriton, app: FastAPI) -> None:
    response = await client.get("/api/tags")
    assert response.status_code == 200
    assert_documented(app, response)
    models = response.json()["models"]
    names = [model["name"] for model in models]
    assert names[0] == "clef-flash:latest" and {"clef:latest", "clef:flash"} < set(names)
    assert len(set(names)) == len(names)
    for model in models:
        assert model["model"] == model["name"] and ":" in model["name"]
        assert triton.model is not None and model["digest"] == triton.model.revision
        assert datetime.fromisoformat(model["modified_at"]).tzinfo is not None
        assert (await client.post("/api/show", json={"model": model["name"]})).status_code == 200


async def test_show(client: httpx.AsyncClient, app: FastAPI) -> None:
    response = await client.post("/api/show", json={"model": "clef"})
    assert response.status_code == 200
    assert_documented(app, response)
    shown = response.json()
    assert shown["model_info"]["clef.context_length"] == 16_384
    assert shown["capabilities"] == ["choice", "score", "noul", "vision"]
    assert "semantics joint\nconfidence top" in shown["parameters"]
    for body, status, code in (({"model": "laya"}, 404, "MODEL_NOT_FOUND"), ({"model": 5}, 422, "INVALID_REQUEST")):
        refused = await client.post("/api/show", json=body)
        assert (refused.status_code, refused.json()["code"]) == (status, code)
        assert_documented(app, refused)


async def test_ps_shows_the_model_while_it_answers(client: httpx.AsyncClient, triton: FakeTriton, app: FastAPI) -> None:
    response = await client.get("/api/ps")
    (model,) = response.json()["models"]
    assert model["name"] == "clef-flash:latest"
    assert model["context_length"] == 16_384
    assert datetime.fromisoformat(model["expires_at"]).year > 2500
    assert_documented(app, response)
    triton.up = False
    assert (await client.post("/api/decide", json=NOUL)).status_code == 503
    await until_ready(client, ready=False)
    assert (await client.get("/api/ps")).json() == {"models": []}


async def test_version_is_the_projects(client: httpx.AsyncClient) -> None:
    newest = re.search(r"^## (\d+\.\d+\.\d+)\b", CHANGELOG, re.MULTILINE)
    assert newest is not None
    assert (await client.get("/api/version")).json() == {"version": newest[1]}
    assert (await client.get("/openapi.json")).json()["info"]["version"] == newest[1]


async def test_the_size_is_that_of_the_weights_on_disk(client: httpx.AsyncClient) -> None:
    size = sum(file.stat().st_size for file in RELEASE.glob("*.safetensors"))
    assert size > 100_000
    for path in ("/api/tags", "/api/ps"):
        assert {model["size"] for model in (await client.get(path)).json()["models"]} == {size}
