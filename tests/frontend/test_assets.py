"""Images as TypeSafe's clients send them: parts of a multipart body, or base64 in the JSON."""

from __future__ import annotations

import base64
import codecs
import json
import struct
import time
import zlib
from io import BytesIO
from typing import Any

import httpx
import pytest
import zstandard
from fastapi import FastAPI
from PIL import Image

from frontend.multipart import boundary_of, split
from preprocess.errors import InvalidRequest, RequestTooLarge
from tests.frontend.fakes import FakeTriton
from tests.frontend.running import NOUL, assert_documented
from tests.invariants import assert_answer

BOUNDARY = "0123456789abcdef0123456789abcdef"
RED, BLUE = (f"<image:{digit * 32}>" for digit in "12")
QUESTIONS = {
    "same": {"type": "noul", "instructions": f"Is {BLUE} like {RED}?", "criteria": {"true": RED}},
    "which": {"type": "choice", "instructions": [RED], "criteria": {"left": BLUE, "right": {"as": RED}}},
    "how": {"type": "score", "criteria": [f"unlike {RED}", "like it"]},
}


def picture(colour: str, kind: str = "png", size: tuple[int, int] = (40, 30)) -> bytes:
    file = BytesIO()
    Image.new("RGB", size, colour).save(file, kind)
    return file.getvalue()


def padded(size: int) -> bytes:
    """A picture's file of exactly `size` bytes: a PNG with a chunk that nobody reads."""
    file = picture("red")
    end = len(file) - 12
    data = b"paDd" + bytes(size - len(file) - 12)
    return file[:end] + struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data)) + file[end:]


FILES = {RED: picture("red"), BLUE: picture("blue", "jpeg")}


def request_of(assets: Any, state: Any = (f"First {RED}.", {"then": BLUE})) -> dict[str, Any]:
    return {"model": "jev-latest", "state": state, "questions": QUESTIONS, "assets": assets}


def part(name: str, content: bytes, content_type: str = "application/octet-stream") -> bytes:
    """One part as typesafe-sdk writes it: its files have their part's name as filename."""
    filename = "" if name == "request" else f'; filename="{name}"'
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{filename}\r\n'
    return f"{head}Content-Type: {content_type}\r\n\r\n".encode() + content + b"\r\n"


def multipart(request: dict[str, Any] | bytes, *files: bytes) -> bytes:
    content = request if isinstance(request, bytes) else json.dumps(request).encode()
    parts = [part("request", content, "application/json")]
    parts += [part(f"asset-{index}", file) for index, file in enumerate(files)]
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


async def post(client: httpx.AsyncClient, body: bytes, path: str = "/v1/systemone", **headers: str) -> httpx.Response:
    content_type = f"multipart/form-data; boundary={BOUNDARY}"
    return await client.post(path, content=body, headers={"content-type": content_type, **headers})


BY_PART = request_of({name: {"type": "image", "part": f"asset-{index}"} for index, name in enumerate(FILES)})
BY_DATA = request_of(
    {
        name: {"type": "image", "format": "png", "data_base64": base64.b64encode(file).decode()}
        for name, file in FILES.items()
    }
)
RESOLVED = {
    "model": "jev-latest",
    "state": ["First image 1.", {"then": "image 2"}],
    "questions": {
        "same": {"type": "noul", "instructions": "Is image 2 like image 1?", "criteria": {"true": "image 1"}},
        "which": {
            "type": "choice",
            "instructions": ["image 1"],
            "criteria": {"left": "image 2", "right": {"as": "image 1"}},
        },
        "how": {"type": "score", "criteria": ["unlike image 1", "like it"]},
    },
}


@pytest.mark.parametrize("path", ["/v1/systemone", "/api/v1/systemone"])
async def test_parts_go_on_as_images_and_their_placeholders_as_words(
    client: httpx.AsyncClient, app: FastAPI, triton: FakeTriton, path: str
) -> None:
    response = await post(client, multipart(BY_PART, *FILES.values()), path)
    assert response.status_code == 200
    assert_documented(app, response)
    assert_answer(RESOLVED, response.json())
    call = triton.real_calls[-1]
    assert json.loads(call.body) == RESOLVED
    assert call.images == list(FILES.values())


async def test_all_ways_to_send_the_images_get_one_answer(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    mixed = request_of({RED: BY_PART["assets"][RED], BLUE: BY_DATA["assets"][BLUE]})
    inline = RESOLVED | {"images": [base64.b64encode(file).decode() for file in FILES.values()]}
    answers = [
        await post(client, multipart(BY_PART, *FILES.values())),
        await post(client, multipart(mixed, FILES[RED])),
        await post(client, multipart(BY_DATA)),
        await client.post("/v1/systemone", json=BY_DATA),
        await client.post("/v1/systemone", json=inline),
    ]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].json()["usage"]["input_tokens"] > 2 * 64
    assert triton.real_calls[3].body == json.dumps(BY_DATA, ensure_ascii=False, separators=(",", ":")).encode()


async def test_a_zstd_body_may_be_multipart(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    body = multipart(BY_PART, picture("red", "png", (640, 480)), picture("blue"))
    response = await post(client, zstandard.compress(body), **{"content-encoding": "zstd"})
    assert response.status_code == 200
    assert len(triton.real_calls[-1].images) == 2


async def test_a_multipart_body_without_assets_is_its_request(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    content = b' {"state" : 1e+22 ,"questions":{"q":{"type":"noul"}}}\n'
    assert (await post(client, multipart(content))).status_code == 200
    assert triton.real_calls[-1].body == content


async def test_numbers_are_written_as_python_writes_them(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    request = (
        '{"state":[1250.0,1e22,-0.0,"<a>","é\\u2028"],"questions":{"q":{"type":"noul"}},"assets":{"<a>":{"part":"p"}}}'
    )
    body = multipart(request.encode()).replace(f"--{BOUNDARY}--".encode(), part("p", FILES[RED])[:-2]) + b"\r\n"
    assert (await post(client, body + f"--{BOUNDARY}--".encode())).status_code == 200
    assert '"state":[1250.0,1e+22,-0.0,"image 1","é\u2028"]'.encode() in triton.real_calls[-1].body


async def test_a_long_body_is_read_beside_the_event_loop(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    file = padded(3 * 1024 * 1024)
    response = await post(client, multipart(BY_PART, file, FILES[BLUE]))
    assert response.status_code == 200
    assert triton.real_calls[-1].images == [file, FILES[BLUE]]


async def test_json_is_json_whatever_its_content_type_says(client: httpx.AsyncClient) -> None:
    body = b"\r\n " + json.dumps(NOUL).encode()
    for content_type in (f"multipart/form-data; boundary={BOUNDARY}", "multipart/form-data", "text/plain", ""):
        for mark in (b"", codecs.BOM_UTF8):
            headers = {"content-type": content_type}
            answer = await client.post("/v1/systemone", content=mark + body, headers=headers)
            assert answer.status_code == 200


END = f"--{BOUNDARY}--\r\n".encode()
NO_NAME = f"--{BOUNDARY}\r\nContent-Type: image/png\r\n\r\nx\r\n".encode()
NO_DISPOSITION = f'--{BOUNDARY}\r\nContent-Disposition: attachment; name="request"\r\n\r\n{{}}\r\n'.encode()
REFUSED: dict[str, tuple[int, bytes, Any]] = {
    "not multipart": (400, b"hello", None),
    "empty": (400, b"", None),
    "another boundary": (400, multipart(BY_PART).replace(b"0", b"1"), None),
    "cut in a part": (400, multipart(BY_PART, *FILES.values())[:-60], None),
    "cut before the end": (400, multipart(BY_PART, *FILES.values())[:-6], None),
    "a part without a name": (400, NO_NAME + multipart(BY_PART), None),
    "a part that is no form data": (400, NO_DISPOSITION + END, None),
    "headers without end": (400, part("request", b"")[:-4] + b"x: y\r\n" * 100 + END, None),
    "no request": (422, part("asset-0", b"x") + END, ["body", "request"]),
    "no parts": (422, END, ["body", "request"]),
    "two requests": (422, part("request", b"{}") + multipart(NOUL), ["body", "request"]),
    "not JSON": (422, multipart(b"hello"), None),
    "not an object": (400, multipart(b"[]"), None),
    "not UTF-8": (400, multipart(b'{"state":"\xff"}'), None),
    "a part that no asset names": (422, multipart(BY_PART, *FILES.values(), b"more"), ["body", "asset-2"]),
    "parts without assets": (422, multipart(NOUL, FILES[RED]), ["body", "asset-0"]),
    "a missing part": (422, multipart(BY_PART, FILES[RED]), ["body", "assets", BLUE, "part"]),
    "no assets in it": (422, multipart(request_of({})), ["body", "assets"]),
    "not an image": (422, multipart(BY_PART, FILES[RED], b"GIF89a"), ["body", "images", 1]),
    "an empty part": (422, multipart(BY_PART, b"", FILES[BLUE]), ["body", "images", 0]),
    "questions at fault": (422, multipart({"state": ""}), ["body", "questions"]),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_wrong_is_refused(client: httpx.AsyncClient, app: FastAPI, name: str) -> None:
    status, body, loc = REFUSED[name]
    response = await post(client, body)
    assert response.status_code == status
    assert_documented(app, response)
    if loc is not None:
        assert response.json()["detail"][0]["loc"] == loc
    assert (await post(client, multipart(BY_PART, *FILES.values()))).status_code == 200


async def test_a_multipart_body_needs_a_boundary(client: httpx.AsyncClient) -> None:
    for content_type in ("multipart/form-data", "multipart/form-data; boundary=", f"multipart/form-data; {BOUNDARY}"):
        headers = {"content-type": content_type}
        response = await client.post("/v1/systemone", content=multipart(BY_PART), headers=headers)
        assert response.status_code == 400


@pytest.mark.parametrize("assets", [{}, {RED: {"type": "image", "part": "asset-0"}}, {RED: {"type": "image"}}], ids=str)
async def test_json_assets_are_refused_by_the_same_words(
    client: httpx.AsyncClient, app: FastAPI, assets: dict[str, Any]
) -> None:
    request = request_of(assets)
    short = await client.post("/v1/systemone", json=request)
    long = await client.post("/v1/systemone", json=request | {"padding": "x" * 70_000})
    assert short.status_code == long.status_code == 422
    assert short.content == long.content
    assert_documented(app, short)


async def test_four_images_and_no_more(client: httpx.AsyncClient, app: FastAPI) -> None:
    names = [f"<{index}>" for index in range(5)]
    for count, status in ((4, 200), (5, 413)):
        assets = {name: {"part": f"asset-{index}"} for index, name in enumerate(names[:count])}
        request = {**NOUL, "state": names[:count], "assets": assets}
        response = await post(client, multipart(request, *[FILES[RED]] * count))
        assert response.status_code == status
        assert_documented(app, response)


async def test_an_image_of_four_mib_and_no_more(client: httpx.AsyncClient) -> None:
    limit = 4 * 1024 * 1024
    for size, status in ((limit, 200), (limit + 1, 413)):
        assert (await post(client, multipart(BY_PART, padded(size), FILES[BLUE]))).status_code == status


async def test_text_beside_the_images_goes_past_neither_limit(client: httpx.AsyncClient) -> None:
    response = await post(client, multipart(BY_PART, b"x" * 13 * 1024 * 1024))
    assert response.status_code == 413
    response = await client.post(
        "/v1/systemone", json={**request_of({"a": BY_DATA["assets"][RED]}), "state": "a" * 3_000_000}
    )
    assert response.status_code == 413


def test_a_boundary_may_be_quoted() -> None:
    assert boundary_of('Multipart/Form-Data; boundary="a b"', b"--a b--") == b"a b"
    assert boundary_of("multipart/mixed; boundary=ab", b"--ab--") is None
    assert boundary_of("", b"--ab--") is None


def test_a_part_keeps_every_byte() -> None:
    contents = {"a": bytes(range(256)) * 3, "b": b"\r\n--boundary\r\n", "c": b"", "d": b"\r\n--", "é": b"\r\n"}
    body = b"".join(part(name, content) for name, content in contents.items()) + END
    assert split(b"\r\n" + body + b"epilogue", BOUNDARY.encode(), 5) == contents
    with pytest.raises(RequestTooLarge):
        split(body, BOUNDARY.encode(), 4)


@pytest.mark.parametrize(
    "filler", [b"\r\n--xy", b"\r\n--x-y", b"\r\n--x\ry", b"\r\n--x\r\n", b"\r\n--x\r\na:b\r\n\r\n"]
)
def test_bodies_full_of_boundaries_cost_no_more_than_their_size(filler: bytes) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="request"\r\n\r\n'
    size = 13 * 1024 * 1024
    began = time.process_time()
    with pytest.raises((InvalidRequest, RequestTooLarge)):
        split(head + filler * (size // len(filler)) + b"\r\n--x--\r\n", b"x", 5)
    assert time.process_time() - began < 0.5
