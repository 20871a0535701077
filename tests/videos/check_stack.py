"""Videos through a real Triton and frontend that run already: over every route, and straight to the ensemble."""

from __future__ import annotations

import base64
import gzip
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from PIL import Image

from preprocess.settings import Settings
from tests.golden_cases import RELEASE
from tests.invariants import assert_answer, assert_close
from tests.preprocess.pictures import data_url, file_of, noise, png_of_zeros
from tests.stack.running import ask, bytes_input, response_of
from tests.videos.clips import QUESTIONS, body, claiming, clip, references, video_file
from tests.videos.publisher import CASES, Publisher, assert_logits

WORKERS_AI = "/client/v4/accounts/me/ai/run/@cf/cloudflare/clef-flash"
ROUTES = ["/v1/systemone", "/api/v1/systemone", "/v1/decisions", "/api/alpha/decisions", WORKERS_AI, "/api/decide"]
FRAMES = clip(30, 128, 96)
FILES = {
    "H.264 in MP4": video_file(FRAMES, "libx264"),
    "MPEG-4 in MP4": video_file(FRAMES),
    "VP8 in WebM": video_file(FRAMES, "libvpx", "webm"),
    "VP9 in WebM": video_file(FRAMES, "libvpx-vp9", "webm", rate=30),
}
FILE = FILES["H.264 in MP4"]
LIMITS = Settings(release=RELEASE)


@pytest.fixture(scope="module")
def publisher() -> Publisher:
    return Publisher()


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with httpx.Client(base_url=os.environ["VIDEO_STACK_HTTP"], timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def grpc() -> Iterator[triton_grpc.InferenceServerClient]:
    client = triton_grpc.InferenceServerClient(os.environ["VIDEO_STACK_GRPC"])
    yield client
    client.close()


def decided(http: httpx.Client, path: str, request: dict[str, Any]) -> dict[str, Any]:
    """SystemOne's part of the route's answer."""
    answer = http.post(path, json=request)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    told = told["result"] if path == WORKERS_AI else told
    return {name: told[name] for name in ("answers", "usage")}


def direct(grpc: triton_grpc.InferenceServerClient, request: dict[str, Any], **parameters: Any) -> dict[str, Any]:
    told = response_of(ask(grpc, request, **parameters))
    assert_answer(request, told)
    return {name: told[name] for name in ("answers", "usage")}


def step_by_step(grpc: triton_grpc.InferenceServerClient, request: dict[str, Any]) -> np.ndarray:
    """The logits that the model step makes of what the preprocess step makes."""
    first = grpc.infer("clef_preprocess", [bytes_input("REQUEST", [json.dumps(request).encode()])])
    inputs = []
    for described in grpc.get_model_metadata("clef_model").inputs:
        values = first.as_numpy(described.name)
        tensor = triton_grpc.InferInput(described.name, values.shape, described.datatype)
        inputs.append(tensor.set_data_from_numpy(values))
    logits: np.ndarray = grpc.infer("clef_model", inputs).as_numpy("LOGITS")[0]
    return logits


def assert_as_published(
    grpc: triton_grpc.InferenceServerClient, request: dict[str, Any], publisher: Publisher, record: Any
) -> None:
    wanted = publisher.logits(record)
    assert_logits(step_by_step(grpc, request), wanted)
    probabilities, start = ask(grpc, request).as_numpy("PROBABILITIES")[0], 0
    for question in record.questions:
        end = start + len(question.option_spans)
        odds = np.exp(wanted[start:end] - wanted[start:end].max())
        assert_logits(probabilities[start:end], odds / odds.sum())
        start = end
    assert response_of(ask(grpc, request))["usage"]["input_tokens"] == len(record.input_ids)


@pytest.mark.parametrize("name", CASES)
def test_frames_are_scored_as_the_publisher_does(
    grpc: triton_grpc.InferenceServerClient, publisher: Publisher, name: str
) -> None:
    assert_as_published(grpc, CASES[name].body(), publisher, publisher.encoded(CASES[name]))


@pytest.mark.parametrize("name", FILES)
def test_files_are_scored_as_the_publisher_does(
    grpc: triton_grpc.InferenceServerClient, publisher: Publisher, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "video"
    file.write_bytes(FILES[name])
    assert_as_published(grpc, body(FILES[name]), publisher, publisher.encoded_file(file))


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("videos", [[clip(5, 64, 48)], [FILE], [clip(3, 64, 64), FILE]], ids=["frames", "file", "both"])
def test_every_route_answers_as_the_ensemble(
    http: httpx.Client, grpc: triton_grpc.InferenceServerClient, path: str, videos: list[Any]
) -> None:
    request = body(*videos)
    assert_close(decided(http, path, request), direct(grpc, request))


def test_a_batch(http: httpx.Client, grpc: triton_grpc.InferenceServerClient) -> None:
    requests = [body(clip(4, 64, 64)), body(FILE), body(), body(clip(1, 64, 64)), CASES["two videos"].body()]
    told = http.post("/v1/systemone/batch", json=requests).json()
    assert [item["status"] for item in told] == [200, 200, 200, 422, 200]
    for request, item in zip(requests, told, strict=True):
        if item["status"] == 200:
            assert_close({name: item[name] for name in ("answers", "usage")}, direct(grpc, request))
    assert told[3]["detail"][0]["loc"] == ["body", "videos", 0]


def test_every_form_of_a_frame_and_of_a_file(http: httpx.Client, grpc: triton_grpc.InferenceServerClient) -> None:
    wanted = direct(grpc, body(clip(4, 64, 64), FILE))
    first, second, third, fourth = references(clip(4, 64, 64))
    plain = base64.b64encode(file_of(clip(4, 64, 64)[1])).decode()
    assert data_url(base64.b64decode(plain)) == second
    webp = data_url(file_of(clip(4, 64, 64)[3], "WEBP", lossless=True), "image/webp")
    assert webp != fourth
    for file in (
        data_url(FILE, "video/mp4"),
        data_url(FILE, "application/octet-stream"),
        base64.b64encode(FILE).decode(),
    ):
        forms = [[first, plain, {"url": third}, webp], file]
        assert_close(decided(http, "/v1/systemone", body() | {"videos": forms}), wanted)


def test_beside_images_in_every_place(http: httpx.Client, grpc: triton_grpc.InferenceServerClient) -> None:
    picture = noise(256, 256)
    request = body(clip(4, 64, 64), FILE, images=references([picture]), state="See image 1.")
    wanted = direct(grpc, request)
    apart = {name: value for name, value in request.items() if name != "images"}
    assert_close(response_of(ask(grpc, apart, [file_of(picture)]))["answers"], wanted["answers"])
    asset = {"<picture>": {"type": "image", "data_base64": base64.b64encode(file_of(picture)).decode()}}
    assert_close(decided(http, "/v1/systemone", apart | {"state": "See <picture>.", "assets": asset}), wanted)
    asset = {"<picture>": {"type": "image", "part": "asset-0"}}
    parts = {
        "request": (None, json.dumps(apart | {"state": "See <picture>.", "assets": asset}), "application/json"),
        "asset-0": ("a.png", file_of(picture), "image/png"),
    }
    assert_close(http.post("/v1/systemone", files=parts).json()["answers"], wanted["answers"])
    item = {"type": "image_url", "image_url": {"url": data_url(file_of(picture))}}
    routed = decided(http, "/api/alpha/decisions", apart | {"state": ["See", item]})
    assert_close(routed, direct(grpc, request | {"state": ["See", "image 1"]}))


def test_a_packed_body(http: httpx.Client, grpc: triton_grpc.InferenceServerClient) -> None:
    request = body(clip(4, 64, 64))
    packed = gzip.compress(json.dumps(request).encode())
    answer = http.post("/v1/systemone", content=packed, headers={"content-encoding": "gzip"})
    assert_close(answer.json()["answers"], direct(grpc, request)["answers"])


def test_settings_of_a_request(http: httpx.Client, grpc: triton_grpc.InferenceServerClient) -> None:
    request = body(clip(4, 64, 64), FILE)
    apart = direct(grpc, request, semantics="independent")
    assert_close(decided(http, "/v1/systemone", request | {"x_independent": True}), apart)
    assert apart["usage"]["input_tokens"] > 1.5 * direct(grpc, request)["usage"]["input_tokens"]
    long = request | {"state": "A camera at a crossing. " * 200}
    told = response_of(ask(grpc, long, max_length=1_000, overflow="truncate"))
    assert told["usage"]["input_tokens"] == 1_000 and told["x_state_truncated"]["dropped"] > 0


def test_a_video_is_one_image_in_the_usage_log(http: httpx.Client) -> None:
    def rows() -> list[tuple[int, int]]:
        with sqlite3.connect(f"file:{os.environ['VIDEO_STACK_USAGE']}?mode=ro", uri=True) as log:
            return log.execute("SELECT images, tokens FROM usage ORDER BY time").fetchall()

    before = len(rows())
    expected = []
    for request, images in (
        (body(), 0),
        (body(clip(60, 64, 64)), 1),
        (body(FILE, clip(3, 64, 64)), 2),
        (CASES["two images, and two videos"].body(), 4),
    ):
        expected.append((images, decided(http, "/v1/systemone", request)["usage"]["input_tokens"]))
    deadline = time.monotonic() + 10
    while len(rows()) < before + len(expected) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert rows()[before:] == expected


def test_it_says_that_it_reads_videos(http: httpx.Client) -> None:
    told = http.get("/v1/models").json()
    assert told["x_settings"]["videos"] is True
    assert told["x_limits"]["max_video_frames"] == LIMITS.max_video_frames
    schemas = http.get("/openapi.json").json()["components"]["schemas"]
    for name in ("Request", "DecideRequest", "WorkersAIRequest"):
        (array,) = (kind for kind in schemas[name]["properties"]["videos"]["anyOf"] if kind["type"] == "array")
        assert "maxItems" not in array and len(array["items"]["anyOf"]) == 2


# What is refused


SMALL = references(clip(2, 32, 32))
BOMB = data_url(png_of_zeros(20_000, 20_000))
STILL = video_file([Image.new("RGB", (2_048, 2_048))] * 62, "libx264", rate=1_000, preset="ultrafast")


@pytest.mark.parametrize(
    ("videos", "status", "words"),
    [
        ([SMALL] * 5, 413, "5 videos; 4 are allowed"),
        ([SMALL * 128 + SMALL[:1]], 413, "257 frames; 256 are allowed"),
        ([BOMB, BOMB], 422, ""),
        ([[BOMB, BOMB]], 413, "400000000 pixels; 16000000 are allowed"),
        ([data_url(bytes(LIMITS.max_images_bytes + 1))], 413, f"{LIMITS.max_images_bytes} are allowed"),
        ([[data_url(bytes(LIMITS.max_image_bytes + 1)), SMALL[0]]], 413, f"{LIMITS.max_image_bytes} are allowed"),
        ([data_url(STILL)], 413, f"{62 * 2_048**2} pixels to decode"),
        ([data_url(claiming(FILE, 20_000_000))], (413, 422), ""),
        ([data_url(claiming(FILE, 2**32 - 1))], (413, 422), ""),
        ([[SMALL[0]]], 422, "two frames at least"),
        ([[SMALL[0], 5]], 422, "Image should be"),
        ([[SMALL[0], "https://example.com/a.png"]], 422, "never opened"),
        (["https://example.com/a.mp4"], 422, "never opened"),
        ([data_url(FILE[: len(FILE) // 2])], 422, "Not a readable"),
        ([data_url(b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n")], 422, "Not a readable"),
        ([[SMALL[0], references(clip(1, 64, 32))[0]]], 422, "one size"),
        ({}, 422, "list"),
        (5, 422, "list"),
    ],
    ids=range(18),
)
def test_what_is_refused(http: httpx.Client, videos: Any, status: int | tuple[int, ...], words: str) -> None:
    answer = http.post("/v1/systemone", json=body() | {"videos": videos})
    assert answer.status_code in (status if isinstance(status, tuple) else (status,)), answer.text
    assert words in answer.text and len(answer.content) < 4_096


def test_at_the_limits(http: httpx.Client) -> None:
    assert len(decided(http, "/v1/systemone", body() | {"videos": [SMALL] * 4})["answers"]) == len(QUESTIONS)
    assert len(decided(http, "/v1/systemone", body() | {"videos": [SMALL * 128]})["answers"]) == len(QUESTIONS)


@pytest.mark.parametrize("path", ROUTES)
def test_every_route_refuses_what_is_no_video(http: httpx.Client, path: str) -> None:
    answer = http.post(path, json=body() | {"videos": [data_url(FILE[:100])]})
    assert answer.status_code == (400 if path == "/api/alpha/decisions" else 422)
    assert "Not a readable MP4 or WebM video" in answer.text
