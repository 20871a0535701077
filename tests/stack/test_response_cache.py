"""Why Triton's own response cache is not offered: what it does on the model step of a real server.

Where one of these fails on another version of Triton, it may be offered there; see `perf/response_cache.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
import tritonclient.grpc as triton_grpc

from frontend.kserve import MODEL
from launch.triton import TritonServer
from perf.triton_cache import cache_counts, cache_options, cached_repository, keeps_errors
from tests.golden_cases import CASES
from tests.stack.running import Stack, ask, response_of, start_stack

CASE = CASES["three-types"]


@pytest.fixture(scope="module")
def caching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose model step is cached, and whose frontend asks nothing by itself while tests count."""
    folder = tmp_path_factory.mktemp("response-cache")
    options = cache_options(TritonServer.find(os.environ.get("CLEF_TRITON")))
    with start_stack(
        folder,
        repository=cached_repository(folder),
        triton_options=options,
        SYSTEMONE_HEALTH_INTERVAL_MS="600000",
    ) as running_stack:
        yield running_stack


@pytest.fixture(scope="module")
def client(caching: Stack) -> Iterator[triton_grpc.InferenceServerClient]:
    client = triton_grpc.InferenceServerClient(f"127.0.0.1:{caching.ports.grpc}")
    yield client
    client.close()


def counts(stack: Stack) -> tuple[float, float]:
    found = cache_counts(stack.ports.metrics, MODEL)
    return found["hits"], found["misses"]


def test_an_identical_request_is_answered_out_of_it(caching: Stack, client: triton_grpc.InferenceServerClient) -> None:
    hits, misses = counts(caching)
    first, second = (ask(client, CASE["request"]) for _ in range(2))
    assert counts(caching) == (hits + 1, misses + 1)
    assert second.as_numpy("RESPONSE")[0, 0] == first.as_numpy("RESPONSE")[0, 0]
    assert response_of(second)["answers"] == CASE["reference"]["response"]["answers"]
    assert second.as_numpy("COMPUTE_MS") == first.as_numpy("COMPUTE_MS")  # of the first one, and not of this one


def test_a_failure_is_kept_as_an_answer_without_tensors(client: triton_grpc.InferenceServerClient) -> None:
    assert keeps_errors(client, json.dumps(CASE["request"] | {"state": "Late once."}).encode())
