"""What broke servers like this one in the field, at the app over the real first and last step.

The numbers are those of the list of field reports. A 4xx always has the contract's code and a JSON body of less than
4 kB, and the next good request is answered.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import tracemalloc
from base64 import b64encode
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import grpc
import httpx
import pytest
from fastapi import FastAPI
from PIL import Image

from frontend.app import create_app
from frontend.logs import JsonLines
from frontend.settings import Settings
from frontend.triton import TritonClient
from tests.frontend.fakes import FakeEnsemble, FakeTriton
from tests.frontend.kserve_server import Kserve, serving
from tests.frontend.running import NOUL, assert_documented, client_of, until_ready
from tests.invariants import assert_answer

PATH = "/v1/systemone"
Q = '{"q":{"type":"noul","instructions":"Is a service down?"}}'
MIB = 1024 * 1024


async def ask(client: httpx.AsyncClient, request: dict[str, Any]) -> dict[str, Any]:
    """The answer, which holds what every answer does."""
    response = await client.post(PATH, json=request)
    assert response.status_code == 200
    assert_answer(request, response.json())
    return response.json()


async def assert_refused(client: httpx.AsyncClient, app: FastAPI, body: str | bytes, *statuses: int) -> None:
    response = await client.post(PATH, content=body)
    assert response.status_code in statuses
    assert len(response.content) < 4_000
    assert_documented(app, response)
    await ask(client, NOUL)


@pytest.mark.parametrize("value", ["NaN", "1e400", "-1e400", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    "body", ['{"model":"m","state":%s}', '{"state":%s,"questions":Q}', '{"state":1,"questions":%s}']
)
async def test_o01_numbers_that_are_none(client: httpx.AsyncClient, app: FastAPI, body: str, value: str) -> None:
    await assert_refused(client, app, body.replace("Q", Q) % value, 400)


@pytest.mark.parametrize("text", ["bad \\ud800 text", "\\udfff", "\\ud800\\ud800", "\\udc00\\ud800"])
async def test_o02_lone_surrogates(client: httpx.AsyncClient, app: FastAPI, text: str) -> None:
    await assert_refused(client, app, f'{{"state":"{text}","questions":{Q}}}', 400)
    await assert_refused(client, app, f'{{"state":{{"{text}":1}},"questions":{Q}}}', 400)
    await assert_refused(client, app, f'{{"state":1,"questions":{{"{text}":{{"type":"noul"}}}}}}', 400)


async def test_o02_whole_pairs_are_characters(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    escaped = await client.post(PATH, content=f'{{"state":"\\ud83d\\ude00","questions":{Q}}}')
    plain = await client.post(PATH, content=f'{{"state":"😀","questions":{Q}}}'.encode())
    assert escaped.status_code == plain.status_code == 200
    assert escaped.content == plain.content


async def test_o03_long_integers(client: httpx.AsyncClient, app: FastAPI) -> None:
    response = await client.post(PATH, content=f'{{"state":{"9" * 400},"questions":{Q}}}')
    assert response.status_code == 200
    await assert_refused(client, app, f'{{"state":{"9" * 5_000},"questions":{Q}}}', 400)
    await assert_refused(client, app, f'{{"state":-{"9" * 200_000},"questions":{Q}}}', 400)


async def test_o03_depth(client: httpx.AsyncClient, app: FastAPI) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        body = '{"state":%s1%s,"questions":Q}'.replace("Q", Q)
        assert (await client.post(PATH, content=body % (opening * 64, closing * 64))).status_code == 200
        for depth in (65, 100, 260, 5_000, 100_000):
            await assert_refused(client, app, body % (opening * depth, closing * depth), 422)
        await assert_refused(client, app, body % (opening * 100_000, ""), 400, 422)


async def test_o04_keys_that_look_like_numbers_keep_their_order(client: httpx.AsyncClient) -> None:
    question = '{"type":"choice","criteria":{"b":"x","10":"y","2":"z","a":null}}'
    response = await client.post(PATH, content=f'{{"state":1,"questions":{{"9":{question},"1":{question}}}}}')
    assert response.status_code == 200
    number = rb"[0-9.e-]+"
    probabilities = rb'"probabilities":\{"b":N,"10":N,"2":N,"a":N\}'.replace(b"N", number)
    assert re.search(rb'"answers":\{"9":\{[^{]*' + probabilities + rb'\},"1":\{[^{]*' + probabilities, response.content)


async def test_o08_names_that_look_alike_stay_apart(client: httpx.AsyncClient) -> None:
    names = ["Yes", "yes", "cafe\u0301", "caf\u00e9", " yes"]
    questions = {name: {"type": "choice", "criteria": dict.fromkeys(names)} for name in names}
    answer = await ask(client, {"state": "x", "questions": questions})
    assert list(answer["answers"]) == names
    assert list(answer["answers"]["yes"]["probabilities"]) == names
    raw = (await client.post(PATH, json={"state": "x", "questions": questions})).content
    assert "cafe\u0301".encode() in raw and "caf\u00e9".encode() in raw


DESCRIPTIONS: list[Any] = ["", {"a": {"b": [1, None, True]}}, ["x", {}], [], {}, "word " * 600]


async def test_o09_descriptions_of_every_shape(client: httpx.AsyncClient, app: FastAPI) -> None:
    named = {f"o{index}": description for index, description in enumerate([None, *DESCRIPTIONS])}
    questions = {
        "choice": {"type": "choice", "criteria": named},
        "score": {"type": "score", "criteria": DESCRIPTIONS},
        "noul": {"type": "noul", "criteria": {"true": DESCRIPTIONS[1], "false": None}},
    }
    await ask(client, {"state": "x", "questions": questions})
    for wrong in (5, 1.5, True):
        for question in (
            {"type": "choice", "criteria": {"a": wrong}},
            {"type": "score", "criteria": [wrong]},
            {"type": "noul", "criteria": {"true": wrong}},
            {"type": "noul", "instructions": wrong},
        ):
            await assert_refused(client, app, json.dumps({"state": "x", "questions": {"q": question}}), 422)


async def test_o09_without_instructions_the_id_is_asked(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    tokens = []
    for fields in ({}, {"instructions": None}, {"instructions": ""}, {"instructions": "Is the service down?"}):
        request = {"state": "x", "questions": {"Is the service down?": {"type": "noul", **fields}}}
        tokens.append((await ask(client, request))["usage"]["input_tokens"])
        assert triton.ensemble.preprocess(triton.real_calls[-1].body, None, {})["INPUT_IDS"].size == tokens[-1]
    assert len(set(tokens)) == 1


def picture(kind: str) -> bytes:
    file = BytesIO()
    Image.effect_noise((64, 64), 80).convert("RGB").save(file, kind)
    return file.getvalue()


def data_url(content: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{b64encode(content).decode()}"


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><rect width="9" height="9"/></svg>'
PDF = b"%PDF-1.7\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
NO_IMAGES: dict[str, Any] = {
    "no comma": "data:image/png;base64",
    "no base64": "data:image/png;base64,@@",
    "empty": "",
    "a number": 5,
    "a null URL": {"url": None},
    "half a JPEG": data_url(picture("jpeg")[:600], "image/jpeg"),
    "an SVG": data_url(SVG, "image/svg+xml"),
    "a PDF": data_url(PDF, "application/pdf"),
}


@pytest.mark.parametrize("name", NO_IMAGES)
async def test_o11_what_is_no_image(client: httpx.AsyncClient, app: FastAPI, name: str) -> None:
    await assert_refused(client, app, json.dumps({**NOUL, "images": [NO_IMAGES[name]]}), 422)
    asset = {"type": "image", "format": "png", "data_base64": NO_IMAGES[name]}
    await assert_refused(client, app, json.dumps({**NOUL, "state": "<a>", "assets": {"<a>": asset}}), 422)
    await ask(client, {**NOUL, "images": [data_url(picture("jpeg"))]})


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every address that this process connects to or looks up."""
    met: list[Any] = []

    def refuse(*arguments: Any, **_: Any) -> None:
        met.append(arguments)
        raise OSError("no connections here")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return met


async def test_o13_urls_and_paths_are_never_opened(
    client: httpx.AsyncClient, app: FastAPI, connections: list[Any], tmp_path: Any
) -> None:
    file = tmp_path / "image.png"
    file.write_bytes(picture("png"))
    urls = [
        "http://127.0.0.1:8000/v2",
        "http://169.254.169.254/latest/meta-data",
        "https://example.com/redirect?to=http://127.0.0.1:8000",
        "HTTP://LOCALHOST/",
        "ftp://127.0.0.1/image.png",
        f"file://{file}",
        "file:///etc/passwd",
        str(file),
        "//127.0.0.1/image.png",
    ]
    for url in urls:
        for image in (url, {"url": url}):
            await assert_refused(client, app, json.dumps({**NOUL, "images": [image]}), 422)
        asset = {"type": "image", "data_base64": url}
        await assert_refused(client, app, json.dumps({**NOUL, "state": "<a>", "assets": {"<a>": asset}}), 422)
    assert connections == []


async def in_chunks(size: int) -> AsyncIterator[bytes]:
    yield b'{"questions":%s,"state":"' % Q.encode()
    for _ in range(size // 65_536):
        yield b" " * 65_536
    yield b'"}'


async def test_o21_large_bodies_cost_no_more_than_the_limit(client: httpx.AsyncClient, app: FastAPI) -> None:
    padded = NOUL | {"padding": "x" * 5 * MIB}
    assert (await client.post(PATH, json=padded)).status_code == 200
    tracemalloc.start()
    try:
        response = await client.post(PATH, content=in_chunks(65 * MIB))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert response.status_code == 413
    assert_documented(app, response)
    assert peak < 40 * MIB
    await ask(client, NOUL)


STEPS = ("clef_preprocess", "clef_model", "clef_postprocess")
SECRET = "the customer's own words"
INSIDE = "/srv/clef/model.py"


@pytest.mark.parametrize("step", STEPS)
async def test_o22_a_failure_of_a_step_stays_inside(
    ensemble: FakeEnsemble, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    kserve = Kserve(ensemble)
    async with serving(kserve) as port:
        app = create_app(Settings(), TritonClient(f"127.0.0.1:{port}"))
        async with client_of(app) as client:
            await until_ready(client)
            text = (
                f"in ensemble 'clef', Failed to process the request for '{step}': Traceback: File \"{INSIDE}\", line 7"
            )
            kserve.failure = (grpc.StatusCode.INTERNAL, f"{text} triton_python_backend_shm_region_7")
            with caplog.at_level(logging.WARNING):
                response = await client.post(PATH, json=NOUL | {"state": SECRET}, headers={"x-request-id": "o22"})
            kserve.failure = None
            await until_ready(client)
            await ask(client, NOUL)
    assert response.status_code == 500
    assert_documented(app, response)
    assert response.json()["detail"]["error_type"] == "api_error"
    assert "o22" in response.json()["detail"]["message"]
    for inside in (INSIDE, "Traceback", "shm", step, SECRET, "ensemble"):
        assert inside not in response.text
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    (line,) = [line for line in lines if line.get("request_id") == "o22"]
    assert step in line["details"]
    assert SECRET not in json.dumps(lines)
