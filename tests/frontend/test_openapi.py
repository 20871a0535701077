from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator, ValidationError
from openapi_spec_validator import validate

from frontend.documents import REQUEST_EXAMPLES
from preprocess.errors import ValidationFailed
from preprocess.schema import parse_request
from tests.frontend.fakes import FakeTriton
from tests.golden_cases import CASES


@pytest.fixture
async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    response = await client.get("/openapi.json")
    assert response.status_code == 200
    return response.json()


def valid(document: dict[str, Any], value: Any) -> bool:
    schema = {"$ref": "#/components/schemas/Request", "components": document["components"]}
    try:
        Draft202012Validator(schema).validate(value)
    except ValidationError:
        return False
    return True


async def test_is_an_openapi_document(document: dict[str, Any]) -> None:
    validate(document)
    assert next(iter(document["paths"])) == "/v1/systemone"
    assert set(document["paths"]) == {
        "/",
        "/health",
        "/healthz",
        "/metrics",
        "/v1/models",
        "/v1/systemone",
        "/v1/systemone/batch",
        "/api/v1/systemone",
        "/v1/decisions",
        "/api/alpha/decisions",
        "/client/v4/accounts/{account}/ai/run/@cf/cloudflare/{model}",
        "/api/decide",
        "/api/show",
        "/api/tags",
        "/api/ps",
        "/api/version",
        "/api/presets",
    }


FRAME = "data:image/png;base64,AAAA"
OF_VIDEOS: list[tuple[Any, bool]] = [
    ([], True),
    (None, True),
    ([[FRAME, "AAAA"]], True),
    ([[FRAME, {"url": FRAME}], [FRAME] * 3], True),
    (["data:video/mp4;base64,AAAA"], True),
    ([[FRAME]], False),
    ([[FRAME, 5]], False),
    ([{"url": FRAME}], False),
    ({}, False),
    ("data:video/mp4;base64,AAAA", False),
]


async def test_its_schema_of_videos_is_that_of_the_release_that_is_served(
    client: httpx.AsyncClient, triton: FakeTriton
) -> None:
    settings = triton.ensemble.preprocess.settings

    def taken(request: dict[str, Any], reads: bool) -> bool:
        try:
            parse_request(json.dumps(request).encode(), settings.model_copy(update={"videos": reads}))
        except ValidationFailed:
            return False
        return True

    for reads in (False, True, False):
        document = await document_of(client, triton, reads)
        for videos, good in OF_VIDEOS:
            request = {"state": 1, "questions": {"q": {"type": "noul"}}, "videos": videos}
            assert valid(document, request) is taken(request, reads) is (good and (reads or not videos)), videos


async def test_is_an_openapi_document_where_videos_are_read(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    validate(await document_of(client, triton, True))


async def document_of(client: httpx.AsyncClient, triton: FakeTriton, reads_videos: bool) -> dict[str, Any]:
    """The document where such a server answers."""
    assert triton.model is not None
    triton.model = replace(triton.model, settings={**triton.model.settings, "videos": reads_videos})
    return (await client.get("/openapi.json")).json()


async def test_its_schema_takes_what_the_validator_takes(document: dict[str, Any]) -> None:
    for example in REQUEST_EXAMPLES.values():
        assert valid(document, example["value"])
    for case in CASES.values():
        assert valid(document, case["request"])


REFUSED: list[Any] = [
    [],
    {"state": 1},
    {"questions": {"q": {"type": "noul"}}},
    {"state": 1, "questions": {}},
    {"state": 1, "questions": {"": {"type": "noul"}}},
    {"state": 1, "questions": {"q": {"type": "box"}}},
    {"state": 1, "questions": {"q": {"type": "noul", "instructions": 1}}},
    {"state": 1, "questions": {"q": {"type": "noul", "criteria": {"maybe": "x"}}}},
    {"state": 1, "questions": {"q": {"type": "noul", "criteria": {"true": 1}}}},
    {"state": 1, "questions": {"q": {"type": "choice"}}},
    {"state": 1, "questions": {"q": {"type": "choice", "criteria": {}}}},
    {"state": 1, "questions": {"q": {"type": "choice", "criteria": {"a": 1}}}},
    {"state": 1, "questions": {"q": {"type": "choice", "criteria": {f"o{i}": None for i in range(256)}}}},
    {"state": 1, "questions": {"q": {"type": "score", "criteria": {"a": "b"}}}},
    {"state": 1, "questions": {"q": {"type": "score", "criteria": [None]}}},
    {"state": 1, "questions": {"q": {"type": "score", "criteria": ["x"] * 11}}},
    {"state": 1, "questions": {"q": {"type": "noul"}}, "images": [5]},
    {"state": 1, "questions": {"q": {"type": "noul"}}, "images": [{"url": None}]},
    {"state": 1, "questions": {"q": {"type": "noul"}}, "videos": [["x"]]},
    {"state": 1, "questions": {"q": {"type": "noul"}}, "videos": {}},
    {"state": 1, "questions": {"q": {"type": "noul"}}, "assets": {}},
    {"state": 1, "questions": {"q": {"type": "noul"}}, "assets": ["x"]},
    {"state": "<a>", "questions": {"q": {"type": "noul"}}, "assets": {"<a>": {"type": "image"}}},
    {"state": "<a>", "questions": {"q": {"type": "noul"}}, "assets": {"<a>": {"type": "video", "data_base64": "AA=="}}},
    {"state": "<a>", "questions": {"q": {"type": "noul"}}, "assets": {"<a>": {"format": "gif", "data_base64": "AA=="}}},
    {"state": 1, "questions": {"q": {"type": "noul"}}, "x_truncate": "yes"},
    {"state": 1, "questions": {"q": {"type": "noul"}}, "model": 5},
]


@pytest.mark.parametrize("request_value", REFUSED, ids=range(len(REFUSED)))
async def test_its_schema_refuses_what_the_validator_refuses(
    document: dict[str, Any], client: httpx.AsyncClient, request_value: Any
) -> None:
    assert not valid(document, request_value)
    assert (await client.post("/v1/systemone", json=request_value)).status_code in (400, 422)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"model": None},
        {"state": None},
        {"state": 5},
        {"images": None},
        {"images": []},
        {"videos": []},
        {"videos": None},
        {"assets": None},
        {"x_truncate": None},
        {"unknown": 1},
        {"questions": {"q": {"type": "noul", "instructions": None, "criteria": None}}},
        {"questions": {"q": {"type": "noul", "instructions": ["a"], "criteria": {"true": None, "false": {"a": 1}}}}},
        {"questions": {"q": {"type": "score", "criteria": ["only one"]}}},
    ],
    ids=str,
)
async def test_both_take_the_odd_but_good(
    document: dict[str, Any], client: httpx.AsyncClient, fields: dict[str, Any]
) -> None:
    request = {"state": "s", "questions": {"q": {"type": "noul"}}, **fields}
    assert valid(document, request)
    assert (await client.post("/v1/systemone", json=request)).status_code == 200
