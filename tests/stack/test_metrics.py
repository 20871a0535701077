"""What the model step tells Triton's own metrics, read where Prometheus reads it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import tritonclient.grpc as triton_grpc

from tests.golden_cases import CASES
from tests.stack.running import Stack, ask, response_of, start_stack

PATIENCE_S = 20
CACHED = ("clef_state_cache_hits_total", "clef_state_cache_misses_total")
STATE = "The parcel arrived broken. " * 40


def question(number: int) -> dict[str, object]:
    return {"state": STATE, "questions": {f"q{number}": {"type": "noul", "instructions": f"Is it number {number}?"}}}


def metrics(stack: Stack) -> dict[str, float]:
    """Value by name; micro-batches of any size together."""
    text = httpx.get(f"http://127.0.0.1:{stack.ports.metrics}/metrics", timeout=10).text
    values: dict[str, float] = {}
    for name, labels, value in re.findall(r"^(clef_\w+)\{(.*?)\} (\S+)$", text, re.MULTILINE):
        assert 'instance="clef_model_0' in labels
        values[name] = values.get(name, 0) + float(value)
    return values


def change(stack: Stack, before: dict[str, float], names: Sequence[str], count: int) -> dict[str, float]:
    """What changed, as soon as these metrics have grown by `count` together."""
    until = time.monotonic() + PATIENCE_S
    while True:
        difference = {name: value - before.get(name, 0) for name, value in metrics(stack).items()}
        if sum(difference[name] for name in names) >= count:
            return difference
        assert time.monotonic() < until, difference
        time.sleep(0.1)


def batch_sizes(stack: Stack) -> dict[int, float]:
    """Micro-batches by their records, rounded up to a power of two."""
    text = httpx.get(f"http://127.0.0.1:{stack.ports.metrics}/metrics", timeout=10).text
    found = re.findall(r'^clef_micro_batches_total\{.*?records="(\d+)".*?\} (\S+)$', text, re.MULTILINE)
    return {int(records): float(count) for records, count in found}


@pytest.fixture(scope="module")
def caching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that keeps the states of these tests, and not the frontend's heartbeat's."""
    with start_stack(tmp_path_factory.mktemp("caching"), CLEF_STATE_CACHE_MIN_TOKENS="128") as running_stack:
        yield running_stack


@pytest.fixture(scope="module")
def client(caching: Stack) -> Iterator[triton_grpc.InferenceServerClient]:
    client = triton_grpc.InferenceServerClient(f"127.0.0.1:{caching.ports.grpc}")
    yield client
    client.close()


def test_every_metric_is_there_from_the_start(caching: Stack) -> None:
    names = set(metrics(caching))
    for name in re.findall(r'"(clef_\w+)": "', Path("adapter/metrics.py").read_text("utf-8")):
        assert name in names or name == "clef_micro_batches_total"  # whose sizes are yet to be seen
    assert metrics(caching)["clef_warmup_seconds"] > 0


def test_a_state_asked_again_is_reused(caching: Stack, client: triton_grpc.InferenceServerClient) -> None:
    before = metrics(caching)
    tokens = [response_of(ask(client, question(number)))["usage"]["input_tokens"] for number in range(3)]
    changed = change(caching, before, CACHED, 3)
    assert changed["clef_state_cache_misses_total"] == 1 and changed["clef_state_cache_hits_total"] == 2
    assert 128 * 2 < changed["clef_state_cache_reused_tokens_total"] < sum(tokens) * 2 / 3
    assert changed["clef_padding_tokens_total"] == 0
    assert metrics(caching)["clef_state_cache_bytes"] > 0


def test_independent_questions_share_their_state(caching: Stack, client: triton_grpc.InferenceServerClient) -> None:
    before = metrics(caching)
    asked = {"state": f"Once more: {STATE}", "questions": {f"q{n}": {"type": "noul"} for n in range(6)}}
    ask(client, asked, semantics="independent")
    changed = change(caching, before, CACHED, 6)
    assert changed["clef_state_cache_misses_total"] == 1 and changed["clef_state_cache_hits_total"] == 5
    assert changed["clef_micro_batches_total"] < 6


def test_batches_tokens_and_padding_are_counted(caching: Stack, client: triton_grpc.InferenceServerClient) -> None:
    before, sizes_before = metrics(caching), batch_sizes(caching)
    names = ["one-option", "three-types", "noul-only", "choice-only"] * 6
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda name: response_of(ask(client, CASES[name]["request"])), names))
    changed = change(caching, before, ["clef_records_total"], len(names))
    assert changed["clef_tokens_total"] >= sum(answer["usage"]["input_tokens"] for answer in answers)
    assert 0 < changed["clef_padding_tokens_total"] < changed["clef_tokens_total"]
    sizes = {records: count - sizes_before.get(records, 0) for records, count in batch_sizes(caching).items()}
    assert sum(sizes.values()) == changed["clef_micro_batches_total"] < len(names)
    assert max(records for records, count in sizes.items() if count) > 1
    assert all(records & (records - 1) == 0 for records in sizes)
    assert metrics(caching)["clef_queue_records"] == 0
