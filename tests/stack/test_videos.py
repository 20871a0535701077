"""A server without the extra for videos; `make test-videos` asks one that has it."""

from __future__ import annotations

import httpx
import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from preprocess.errors import ServiceError
from tests.golden_cases import CASES
from tests.preprocess.pictures import data_url, file_of, noise
from tests.stack.running import ask

GOOD = CASES["three-types"]["request"]
FRAME = data_url(file_of(noise(64, 64)))
# An MP4 is one by these bytes.
FILE = data_url(b"\0\0\0\x18ftypisom" + bytes(64), "video/mp4")
HOW = "pip install -r requirements/video.txt, and CLEF_VIDEOS=1"
ROUTES = {
    "/v1/systemone": 422,
    "/api/v1/systemone": 422,
    "/v1/decisions": 422,
    "/api/alpha/decisions": 400,
    "/client/v4/accounts/me/ai/run/@cf/cloudflare/clef-flash": 422,
    "/api/decide": 422,
}


@pytest.mark.parametrize("videos", [[[FRAME, FRAME]], [FILE]], ids=["frames", "file"])
@pytest.mark.parametrize("path", ROUTES)
def test_a_video_is_told_how_to_install_what_reads_it(http: httpx.Client, path: str, videos: list[object]) -> None:
    answer = http.post(path, json=GOOD | {"videos": videos})
    assert answer.status_code == ROUTES[path], answer.text
    assert HOW in answer.text


def test_it_fails_alone_in_a_batch(http: httpx.Client) -> None:
    good, refused = http.post("/v1/systemone/batch", json=[GOOD, GOOD | {"videos": [[FRAME, FRAME]]}]).json()
    assert (good["status"], refused["status"]) == (200, 422)
    assert HOW in refused["detail"][0]["msg"] and refused["detail"][0]["loc"] == ["body", "videos"]


def test_a_body_that_the_frontend_does_not_read_itself(http: httpx.Client) -> None:
    answer = http.post("/v1/systemone", json=GOOD | {"videos": [[FRAME, FRAME]], "unknown": "x" * 100_000})
    assert answer.status_code == 422 and HOW in answer.text


def test_at_the_ensemble(grpc: triton_grpc.InferenceServerClient) -> None:
    with pytest.raises(InferenceServerException) as caught:
        ask(grpc, GOOD | {"videos": [[FRAME, FRAME]]})
    error = ServiceError.from_json(caught.value.message())
    assert error.status == 422 and HOW in error.detail[0]["msg"]


@pytest.mark.parametrize("nothing", [None, []])
def test_no_videos(http: httpx.Client, nothing: object) -> None:
    assert (
        http.post("/v1/systemone", json=GOOD | {"videos": nothing}).json()
        == CASES["three-types"]["reference"]["response"]
    )


def test_the_document_takes_none(http: httpx.Client) -> None:
    assert http.get("/v1/models").json()["x_settings"]["videos"] is False
    taken = http.get("/openapi.json").json()["components"]["schemas"]["Request"]["properties"]["videos"]["anyOf"]
    assert {"type": "array", "maxItems": 0} in taken
