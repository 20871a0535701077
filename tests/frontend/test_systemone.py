from __future__ import annotations

import json
import re
import time

import httpx
import pytest
from fastapi import FastAPI

from frontend.documents import REQUEST_EXAMPLES
from tests.frontend.fakes import FakeTriton
from tests.frontend.running import NOUL, assert_documented, body_of
from tests.golden_cases import CASES
from tests.invariants import assert_answer

THREE = CASES["three-types"]["request"]
paths = pytest.mark.parametrize("path", ["/v1/systemone", "/api/v1/systemone"])


@paths
async def test_answers_all_three_types(client: httpx.AsyncClient, app: FastAPI, path: str) -> None:
    response = await client.post(path, json=THREE)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert_answer(THREE, response.json())
    assert_documented(app, response)


async def test_the_answer_is_the_ensembles_byte_for_byte(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    request = {**NOUL, "questions": {"é\u2028\x7f": {"type": "choice", "criteria": {"b": None, "10": None, "2": None}}}}
    body = json.dumps(request).encode()
    response = await client.post("/v1/systemone", content=body)
    assert response.content == triton.ensemble(body, [], {}).response
    assert re.search(rb'"b":[^,]+,"10":[^,]+,"2":', response.content)


async def test_the_body_goes_on_as_it_came(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    body = b' {"state" : 1e+22 ,"questions":{"q":{"type":"noul"}}, "unknown":-0.0}\n'
    assert (await client.post("/v1/systemone", content=body)).status_code == 200
    call = triton.real_calls[-1]
    assert call.body is body or call.body == body
    assert call.images == ()


async def test_the_deadline_travels(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    began = time.time()
    await client.post("/v1/systemone", json=NOUL)
    assert began + 30 <= triton.real_calls[-1].deadline <= time.time() + 30


@pytest.mark.parametrize("example", REQUEST_EXAMPLES)
async def test_the_documents_examples_are_answered(client: httpx.AsyncClient, example: str) -> None:
    request = REQUEST_EXAMPLES[example]["value"]
    response = await client.post("/v1/systemone", json=request)
    assert response.status_code == 200
    assert_answer(request, response.json())


@pytest.mark.parametrize("name", ["clef-flash", "clef", "jev-latest", "@cf/cloudflare/clef-flash", None])
async def test_known_models(client: httpx.AsyncClient, name: str | None) -> None:
    assert (await client.post("/v1/systemone", json={**NOUL, "model": name})).status_code == 200


async def test_headers_of_an_answer(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    response = await client.post("/v1/systemone", json=NOUL)
    assert triton.model is not None
    assert response.headers["x-model-revision"] == triton.model.revision
    assert response.headers["x-batch-size"] == "3"
    timing = dict(entry.split(";dur=") for entry in response.headers["server-timing"].split(", "))
    assert list(timing) == ["queue", "preprocess", "compute", "postprocess", "total"]
    assert [float(timing[name]) for name in list(timing)[:4]] == [0.5, 1.25, 2.5, 0.25]
    assert 0 < float(timing["total"]) < 5000


async def test_a_request_is_validated_once_by_the_ensemble(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    wrong = {"questions": {"q": {"type": "score", "criteria": {}}}}
    short = await client.post("/v1/systemone", content=body_of(1_000, **wrong))
    long = await client.post("/v1/systemone", content=body_of(100_000, **wrong))
    assert short.status_code == long.status_code == 422
    assert short.content == long.content
    assert [len(call.body) for call in triton.real_calls] == [1_000, 100_000]
