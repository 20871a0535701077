"""Many requests at once: each answer is its own, bad ones fail alone, short ones do not wait for long ones."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_aio
from tritonclient.utils import InferenceServerException

from tests.golden_cases import CASES, REFERENCE_MODE, tolerance
from tests.invariants import assert_answer, assert_close
from tests.stack.running import ask, bytes_input, response_of

NAMES = [name for name in CASES if name != REFERENCE_MODE]
SHORT = CASES["three-types"]["request"]


def long(number: int) -> dict:
    """A request of some seconds that shares its beginning with no other: nothing of it is computed already."""
    return {"state": f"{number} " + "lorem ipsum dolor " * 350, "questions": {"q": {"type": "noul"}}}


def test_sixteen_at_once_get_their_own_answers(stack, grpc):
    def one(name):
        return name, ask(grpc, CASES[name]["request"])

    names = [name for name in NAMES for _ in range(2)]
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(one, names))
    assert max(int(result.as_numpy("BATCH_SIZE")[0, 0]) for _, result in results) > 1, "nothing was batched"
    for name, result in results:
        assert_close(response_of(result), CASES[name]["reference"]["response"], tolerance(name))


def test_a_bad_request_among_good_ones_fails_alone(http):
    good, bad = CASES["three-types"], {"state": "x", "questions": {"q": {"type": "choice", "criteria": {}}}}

    def one(index):
        return index, http.post("/v1/systemone", json=bad if index % 4 == 3 else good["request"])

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(one, range(32)))
    for index, answer in answers:
        if index % 4 == 3:
            assert answer.status_code == 422
        else:
            assert answer.status_code == 200
            assert_close(answer.json(), good["reference"]["response"])


def test_a_short_request_overtakes_long_ones_that_wait(grpc):
    start = time.monotonic()
    ask(grpc, long(0))
    one_long = time.monotonic() - start
    with ThreadPoolExecutor(8) as pool:
        longs = [pool.submit(lambda each: (ask(grpc, long(each)), time.monotonic())[1], each) for each in range(1, 7)]
        time.sleep(one_long / 2)
        ask(grpc, SHORT)
        short_done = time.monotonic()
        assert sum(future.result() > short_done for future in longs) >= 4, "the short one waited for the queue"


async def test_steady_load_leaves_no_gap_between_answers(stack):
    """No time without an answer is longer than three executions: a lost wake-up in a batcher shows as one."""
    request, in_flight, each = SHORT, 24, 8
    body = json.dumps(request).encode()
    async with triton_aio.InferenceServerClient(f"127.0.0.1:{stack.ports.grpc}") as client:
        answered: list[tuple[float, float]] = []

        async def loop():
            for _ in range(each):
                result = await client.infer("clef", [bytes_input("REQUEST", [body])])
                answered.append((time.monotonic(), float(result.as_numpy("COMPUTE_MS")[0, 0])))

        await asyncio.gather(*(loop() for _ in range(in_flight)))
    times = sorted(at for at, _ in answered)
    slowest_s = max(milliseconds for _, milliseconds in answered) / 1e3
    gap = max(after - before for before, after in pairwise(times))
    assert gap <= 3 * slowest_s, f"a gap of {gap * 1e3:.0f} ms, the slowest execution took {slowest_s * 1e3:.0f} ms"
    assert len(answered) == in_flight * each


def test_two_rows_in_one_request_are_refused(grpc):
    tensor = triton_grpc.InferInput("REQUEST", [2, 1], "BYTES")
    body = json.dumps(SHORT).encode()
    tensor.set_data_from_numpy(np.array([[body], [body]], dtype=np.object_))
    with pytest.raises(InferenceServerException, match="batch"):
        grpc.infer("clef", [tensor])


def test_the_same_request_alone_gives_the_same_bytes(http):
    bodies = {http.post("/v1/systemone", json=SHORT).content for _ in range(20)}
    assert len(bodies) == 1
    assert_answer(SHORT, json.loads(bodies.pop()))
