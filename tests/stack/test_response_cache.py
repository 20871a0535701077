"""Triton's response cache, as it is offered: a real server that keeps what `clef_cached` answered, asked both ways."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from frontend.keyfile import KeyFile
from frontend.kserve import CACHED
from frontend.tiers import Tier
from preprocess.errors import ServiceError
from tests.frontend.keyfiles import written
from tests.golden_cases import CASES
from tests.invariants import assert_close
from tests.stack.running import Stack, bytes_input, response_of, start_stack

CASE = CASES["three-types"]
IMAGE_CASE = CASES["image-native-grid"]
NOUL = {"outage": {"type": "noul", "instructions": "Is a service down?"}}
CACHE_BYTES = str(4 << 20)
SMALL_CACHE_BYTES = str(64 << 10)
TIERS = {"wide": Tier(), "narrow": Tier(questions=1)}
HIT = "cache;desc=hit"


@pytest.fixture(scope="module")
def caching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose frontend asks for a heartbeat all the time."""
    folder = tmp_path_factory.mktemp("response-cache")
    with start_stack(folder, CLEF_RESPONSE_CACHE_BYTES=CACHE_BYTES, SYSTEMONE_HEALTH_INTERVAL_MS="250") as stack:
        yield stack


@pytest.fixture(scope="module")
def keys(caching: Stack) -> dict[str, str]:
    """Three keys of the frontend by their names: two of one tier, and one of a narrower one."""
    path, content, found = caching.log.parent / "keys.json", KeyFile(tiers=TIERS), {}
    for name, tier in (("alice", "wide"), ("bob", "wide"), ("carol", "narrow")):
        content, found[name] = content.with_new_key(name, tier)
    written(path, content, "nobody", "wide")
    return found


@pytest.fixture(scope="module")
def http(caching: Stack, keys: dict[str, str]) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {keys['alice']}"}
    with httpx.Client(base_url=caching.frontend, headers=headers, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def client(caching: Stack) -> Iterator[triton_grpc.InferenceServerClient]:
    with triton_grpc.InferenceServerClient(f"127.0.0.1:{caching.ports.grpc}") as client:
        yield client


def counts(client: triton_grpc.InferenceServerClient) -> tuple[int, int]:
    """Hits and misses, as Triton counts them."""
    stats = client.get_inference_statistics(CACHED).model_stats[0].inference_stats
    return stats.cache_hit.count, stats.cache_miss.count


def ask(
    client: triton_grpc.InferenceServerClient,
    token: str,
    request: dict[str, Any] = CASE["request"],
    key: str = "key",
    outputs: list[str] | None = None,
    **parameters: Any,
) -> triton_grpc.InferResult:
    """A request straight to `clef_cached`."""
    inputs = [bytes_input("REQUEST", [json.dumps(request).encode()]), bytes_input("CACHE_KEY", [key.encode()])]
    return client.infer(
        CACHED,
        inputs,
        outputs=outputs and [triton_grpc.InferRequestedOutput(name) for name in outputs],
        parameters={"cancel_token": token, **parameters},
        client_timeout=60,
    )


def computed_for(result: triton_grpc.InferResult) -> str:
    token: bytes = result.as_numpy("COMPUTED_FOR")[0, 0]
    return token.decode()


@contextmanager
def busy(stack: Stack, client: triton_grpc.InferenceServerClient, name: str) -> Iterator[None]:
    """While the model computes something long, which shares its beginning with nothing else."""
    body = {"state": f"{name} " + "lorem ipsum dolor " * 900, "questions": NOUL}
    request = [bytes_input("REQUEST", [json.dumps(body).encode()])]
    with ThreadPoolExecutor() as pool:
        long = pool.submit(client.infer, "clef", request, request_id=name)
        while not stack.lines(name):
            time.sleep(0.01)
        yield
        long.result()


@pytest.mark.parametrize("name", ["three-types", "image-native-grid"])
def test_an_identical_request_is_answered_out_of_it(
    http: httpx.Client, client: triton_grpc.InferenceServerClient, name: str
) -> None:
    hits, misses = counts(client)
    first, second = (http.post("/v1/systemone", json=CASES[name]["request"]) for _ in range(2))
    assert counts(client) == (hits + 1, misses + 1)
    assert second.content == first.content
    assert second.json()["answers"] == CASES[name]["reference"]["response"]["answers"]
    assert HIT not in first.headers["server-timing"] and first.headers["x-batch-size"] == "1"
    assert second.headers["server-timing"].endswith(HIT) and second.headers["x-batch-size"] == "0"
    assert "compute;dur=0.000" in second.headers["server-timing"]


def test_the_images_of_a_kept_answer_are_counted(http: httpx.Client, caching: Stack) -> None:
    request_id = "images-of-a-kept-answer"
    for _ in range(2):
        answer = http.post("/v1/systemone", json=IMAGE_CASE["request"], headers={"x-request-id": request_id})
    assert answer.headers["server-timing"].endswith(HIT)
    lines = [json.loads(line) for line in caching.frontend_log.read_text().splitlines() if request_id in line]
    assert lines[-1]["cached"] == 1 and lines[-1]["images"] == len(IMAGE_CASE["request"]["images"])


def test_no_key_has_another_keys_answer_or_one_over_its_tier(
    http: httpx.Client, client: triton_grpc.InferenceServerClient, keys: dict[str, str]
) -> None:
    def posted(name: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {keys[name]}"}
        return http.post("/v1/systemone", json=CASE["request"] | {"state": "Whose is it?"}, headers=headers)

    assert HIT not in posted("alice").headers["server-timing"]
    assert HIT not in posted("bob").headers["server-timing"]
    hits, _ = counts(client)
    for _ in range(2):
        assert posted("carol").status_code == 422
    assert counts(client)[0] == hits
    assert HIT in posted("bob").headers["server-timing"]


def test_what_changes_an_answer_is_never_answered_alike(http: httpx.Client) -> None:
    request = CASE["request"] | {"state": "Told otherwise."}
    for fields in ({}, {"x_truncate": True}, {"x_independent": True}):
        assert HIT not in http.post("/v1/systemone", json=request | fields).headers["server-timing"]
    # Bytes that were asked before, and a parameter of the frontend's own beside them.
    body = json.dumps(request).encode()
    assert HIT not in http.post("/v1/systemone", content=body).headers["server-timing"]
    assert HIT not in http.post("/api/decide", content=body).headers["server-timing"]
    assert HIT in http.post("/api/decide", content=body).headers["server-timing"]


def test_a_request_that_came_too_late_is_computed_when_it_is_asked_again(
    caching: Stack, client: triton_grpc.InferenceServerClient
) -> None:
    unread, unanswered = ({"state": state, "questions": NOUL} for state in ("Unread.", "Unanswered."))
    with pytest.raises(InferenceServerException) as caught:
        ask(client, "late", unread, deadline_ms=1)
    assert "before the request was read" in ServiceError.from_json(caught.value.message()).to_json()
    with busy(caching, client, "before-the-late-one"), pytest.raises(InferenceServerException) as caught:
        ask(client, "late", unanswered, deadline_ms=int(time.time() * 1e3) + 100)
    error = ServiceError.from_json(caught.value.message())
    assert error.status == 504 and "read" not in error.to_json(), "it was to fail at the model step"
    for request in (unread, unanswered):
        again = ask(client, "again", request)
        assert computed_for(again) == "again" and response_of(again)["answers"]


def test_a_refusal_is_a_refusal_again(http: httpx.Client, client: triton_grpc.InferenceServerClient) -> None:
    hits, misses = counts(client)
    wrong = [http.post("/v1/systemone", json={"state": "x", "questions": {}}) for _ in range(2)]
    assert [answer.status_code for answer in wrong] == [422, 422] and wrong[0].content == wrong[1].content
    assert counts(client) == (hits, misses)


def test_a_request_whose_client_left_is_computed_when_it_is_asked_again(
    http: httpx.Client, caching: Stack, client: triton_grpc.InferenceServerClient
) -> None:
    request = {"state": "Left alone.", "questions": NOUL}
    with busy(caching, client, "before-the-left-one"), pytest.raises(httpx.ReadTimeout):
        http.post("/v1/systemone", json=request, timeout=0.1)
    assert HIT not in http.post("/v1/systemone", json=request).headers["server-timing"]
    assert HIT in http.post("/v1/systemone", json=request).headers["server-timing"]


def test_heartbeats_and_who_asks_the_other_ensemble_are_always_computed(
    client: triton_grpc.InferenceServerClient,
) -> None:
    before = counts(client)
    time.sleep(1)
    request = [bytes_input("REQUEST", [json.dumps(CASE["request"]).encode()])]
    answers = [client.infer("clef", request) for _ in range(2)]
    assert answers[0].as_numpy("COMPUTE_MS") != answers[1].as_numpy("COMPUTE_MS")
    assert counts(client) == before


def test_what_is_answered_is_what_the_key_says(client: triton_grpc.InferenceServerClient) -> None:
    """Triton knows neither parameters nor which outputs are asked for: a key of one's own must stand for both."""
    ask(client, "first", key="narrow", outputs=["RESPONSE", "COMPUTED_FOR"])
    second = ask(client, "second", key="narrow", confidence="typesafe")
    assert computed_for(second) == "first" and second.as_numpy("PROBABILITIES") is None
    wide = ask(client, "third", key="typesafe", confidence="typesafe")
    assert computed_for(wide) == "third" and wide.as_numpy("PROBABILITIES") is not None


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[triton_grpc.InferenceServerClient]:
    """Asks a server with a small cache, which loads models when it is told to, as the launcher's does not."""
    options = ["--model-control-mode=explicit", "--load-model=*"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("launch.triton.restrictions", list)
        folder = tmp_path_factory.mktemp("small-cache")
        with (
            start_stack(folder, triton_options=options, CLEF_RESPONSE_CACHE_BYTES=SMALL_CACHE_BYTES) as stack,
            triton_grpc.InferenceServerClient(f"127.0.0.1:{stack.ports.grpc}") as client,
        ):
            yield client


def test_the_oldest_makes_room(small: triton_grpc.InferenceServerClient) -> None:
    for _ in range(2):
        assert computed_for(ask(small, "kept", key="oldest")) == "kept"
    for number in range(60):
        assert computed_for(ask(small, "new", key=f"{number}")) == "new"
    assert computed_for(ask(small, "again", key="59")) == "new"
    assert computed_for(ask(small, "again", key="oldest")) == "again"


def test_everybody_has_their_own_answer_while_others_displace_it(small: triton_grpc.InferenceServerClient) -> None:
    """More requests than the cache holds, from several callers at once, each with its own question's name."""
    requests = [{"state": f"Case {number}.", "questions": {f"q{number}": NOUL["outage"]}} for number in range(40)]
    alone = [response_of(ask(small, "alone", request, key="alone")) for request in requests]

    def called(seed: int) -> int:
        chance, kept = random.Random(seed), 0
        for _ in range(150):
            number = min(chance.randrange(40), chance.randrange(40))
            result = ask(small, f"{seed}", requests[number], key="racing")
            assert_close(response_of(result), alone[number], 2e-4)
            kept += computed_for(result) != f"{seed}"
        return kept

    with ThreadPoolExecutor() as pool:
        kept = list(pool.map(called, range(4)))
    assert min(kept) > 0


def test_a_model_that_is_loaded_anew_finds_the_cache_as_it_was(small: triton_grpc.InferenceServerClient) -> None:
    """So a key must stand for the model, as the frontend's do."""
    assert computed_for(ask(small, "before", key="loaded")) == "before"
    for model in (CACHED, "clef_model"):
        small.unload_model(model)
        while small.is_model_ready(CACHED):
            time.sleep(0.05)
        small.load_model(model)
        while not small.is_model_ready(CACHED):
            time.sleep(0.05)
        assert computed_for(ask(small, "after", key="loaded")) == "before"


def test_without_a_cache_every_request_is_computed(stack: Stack, grpc: triton_grpc.InferenceServerClient) -> None:
    def asked() -> int:
        count: int = grpc.get_inference_statistics(CACHED).model_stats[0].inference_stats.success.count
        return count

    before = asked()
    for _ in range(2):
        assert HIT not in httpx.post(f"{stack.frontend}/v1/systemone", json=CASE["request"]).headers["server-timing"]
    assert [computed_for(ask(grpc, token)) for token in ("one", "two")] == ["one", "two"]
    # Triton counts an answer a moment after it was sent; the frontend asked for none of these.
    deadline = time.monotonic() + 10
    while asked() < before + 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert asked() == before + 2
