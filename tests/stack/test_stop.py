"""A stop under load: what runs is answered, what comes is refused, and nothing is left.

The frontend is stopped first, as the launcher does it, and waits for its answers. Triton itself (2.51) closes every
step at once when it is asked to stop: who asks the ensemble directly then is answered or told that it is gone, and
no one waits.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.golden_cases import CASES
from tests.invariants import assert_answer
from tests.stack.running import Stack, ask, response_of, start_stack

REQUESTS = 6
SHORT = CASES["noul-only"]["request"]


def longer(index: int) -> dict:
    return {"state": f"{index} " + "lorem ipsum dolor " * 350, "questions": {"q": {"type": "noul"}}}


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def at_the_model(stack: Stack, ids: list[str]) -> Callable[[], bool]:
    return lambda: all(stack.lines(name) for name in ids)


def refuses(url: str) -> bool:
    try:
        httpx.get(f"{url}/health", timeout=5)
    except httpx.ConnectError:
        return True
    return False


def stop_the_frontend(stack: Stack) -> None:
    ids = [f"http-{index}" for index in range(REQUESTS)]

    def post(index: int) -> httpx.Response:
        headers = {"x-request-id": ids[index]}
        return httpx.post(f"{stack.frontend}/v1/systemone", json=longer(index), headers=headers, timeout=60)

    with ThreadPoolExecutor(REQUESTS) as pool:
        running = [pool.submit(post, index) for index in range(REQUESTS)]
        until(at_the_model(stack, ids), "they were not asked")
        stack.frontend_process.send_signal(signal.SIGTERM)
        until(lambda: refuses(stack.frontend), "it takes new connections")
        assert not all(future.done() for future in running), "nothing ran any more when it was refused"
        for index, future in enumerate(running):
            assert future.result().status_code == 200
            assert_answer(longer(index), future.result().json())
    assert stack.frontend_process.wait(10) == 0


def stop_triton(stack: Stack, client: triton_grpc.InferenceServerClient) -> None:
    ids = [f"grpc-{index}" for index in range(REQUESTS)]

    def one(index: int) -> None:
        try:
            assert_answer(longer(index), response_of(ask(client, longer(index), request_id=ids[index])))
        except InferenceServerException as error:
            assert error.status() == "StatusCode.UNAVAILABLE"

    with ThreadPoolExecutor(REQUESTS) as pool:
        running = [pool.submit(one, index) for index in range(REQUESTS)]
        until(at_the_model(stack, ids), "they were not asked")
        stack.triton_process.send_signal(signal.SIGTERM)
        until(lambda: "Waiting for in-flight requests" in stack.log.read_text("utf-8"), "it did not hear")
        with pytest.raises(InferenceServerException):
            ask(client, SHORT)
        for future in running:
            future.result(30)
    assert stack.triton_process.wait(30) == 0


@pytest.mark.timeout(240)
def test_a_stop_under_load(tmp_path):
    with start_stack(tmp_path) as stack:
        client = triton_grpc.InferenceServerClient(f"127.0.0.1:{stack.ports.grpc}")
        stubs = stack.triton_process.children(recursive=True)
        assert len(stubs) == 3 and stack.regions()
        stop_the_frontend(stack)
        stop_triton(stack, client)
        client.close()
        _, alive = psutil.wait_procs(stubs, timeout=10)
        assert not alive
        # Before anything is swept.
        assert stack.regions() == []
