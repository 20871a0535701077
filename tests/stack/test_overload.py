"""More than fits: what finds no room is refused at once, what is late is dropped, and after it all is as before.

The stack has room for few records and, as Docker gives it, 64 MB of shared memory: O19 of the field reports is here.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import httpx
import pytest
import tritonclient.grpc as triton_grpc
from PIL import Image
from tritonclient.utils import InferenceServerException

from preprocess.errors import ServiceError
from tests.golden_cases import CASES
from tests.invariants import assert_answer, assert_close
from tests.stack.load import SOAK_FACTOR, canary, counted, post_all
from tests.stack.running import Stack, ask, response_of, start_stack

pytestmark = pytest.mark.timeout(240)

RECORDS = 8
TIMEOUT_MS = 15_000
SMALL = "64m"
MIB = 1024 * 1024
NOUL = {"q": {"type": "noul", "instructions": "Is a service down?"}}
GOOD = CASES["three-types"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"CLEF_MAX_WAITING_RECORDS": str(RECORDS), "SYSTEMONE_REQUEST_TIMEOUT_MS": str(TIMEOUT_MS)}
    with start_stack(tmp_path_factory.mktemp("small"), shared_memory=SMALL, **settings) as running_stack:
        yield running_stack


@pytest.fixture
def grpc(stack: Stack) -> Iterator[triton_grpc.InferenceServerClient]:
    client = triton_grpc.InferenceServerClient(f"127.0.0.1:{stack.ports.grpc}")
    yield client
    client.close()


@pytest.fixture(autouse=True)
def as_before(stack: Stack) -> Iterator[None]:
    """After each test the same processes answer as they did, and hold nothing."""
    before = stack.stubs()
    yield
    assert_close(
        httpx.post(f"{stack.frontend}/v1/systemone", json=GOOD["request"], timeout=60).json(),
        GOOD["reference"]["response"],
    )
    assert stack.stubs() == before
    deadline = time.monotonic() + 10
    while held := stack.metric("systemone_in_flight") + stack.metric("clef_queue_records", of="triton"):
        assert time.monotonic() < deadline, held
        time.sleep(0.1)


async def health_meanwhile(stack: Stack, statuses: list[int]) -> None:
    async with httpx.AsyncClient(base_url=stack.frontend, timeout=10) as client:
        while True:
            statuses.append((await client.get("/health")).status_code)
            await asyncio.sleep(0.1)


async def test_what_finds_no_room_at_the_model_is_refused_and_load_is_no_outage(stack):
    health: list[int] = []
    watching = asyncio.create_task(health_meanwhile(stack, health))
    outcomes = await post_all(stack.frontend, map(canary, range(100)), clients=100)
    watching.cancel()
    counts = counted(outcomes)
    assert set(counts) == {200, 503} and counts[200] >= RECORDS
    for outcome in outcomes:
        assert outcome.seconds < TIMEOUT_MS / 1e3
        if outcome.status == 200:
            outcome.answer()
        else:
            assert outcome.response.headers["retry-after"] == "1"
            assert outcome.response.json()["detail"]["error_type"] == "overloaded_error"
            assert "records are being answered" in outcome.response.text
    assert len(health) > 1 and set(health) == {200}
    deadline = time.monotonic() + 10
    while stack.metric("clef_refused_total", of="triton") < counts[503]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
    # As many as there is room for, however often.
    for _ in range(3):
        assert counted(await post_all(stack.frontend, map(canary, range(RECORDS)), clients=RECORDS)) == {200: RECORDS}


def test_a_request_of_more_records_than_there_is_room_for_is_taken_where_it_is_alone(stack):
    request = {"state": "x", "questions": {f"q{index}": {"type": "noul"} for index in range(2 * RECORDS)}}
    answer = httpx.post(f"{stack.frontend}/v1/systemone", json=request | {"x_independent": True}, timeout=60)
    assert answer.status_code == 200
    assert_answer(request, answer.json())


def picture(side: int) -> bytes:
    file = BytesIO()
    Image.new("RGB", (side, side), (9, 99, 200)).save(file, "png")
    return file.getvalue()


def directly(client: triton_grpc.InferenceServerClient, images: list[bytes], name: str = "", **parameters) -> int | str:
    """The HTTP status of what the ensemble answers, or Triton's own words."""
    try:
        result = ask(client, {"state": name, "questions": NOUL}, images, request_id=name, **parameters)
    except InferenceServerException as error:
        text = error.message()
        return ServiceError.from_json(text).status if '{"status"' in text else text
    assert list(response_of(result)["answers"]) == list(NOUL)
    return 200


def test_who_asks_directly_waits_no_longer_than_a_deadline(stack, grpc):
    """The queue before the first step is Triton's, and has no bound on 2.51; what is late there costs nothing more."""
    asked, patience_s = 150, 0.5
    image, began = picture(1000), time.monotonic()
    until = int((time.time() + patience_s) * 1e3)
    with ThreadPoolExecutor(asked) as pool:
        names = [f"late-{index}" for index in range(asked)]
        statuses = list(pool.map(lambda name: directly(grpc, [image], name, deadline_ms=until), names))
    assert time.monotonic() - began < patience_s + 5
    assert set(statuses) <= {200, 503, 504} and 504 in statuses
    late = [name for name, status in zip(names, statuses, strict=True) if status == 504]
    # A failure's line is written before its answer is sent.
    unread = [name for name in late if [line["logger"] for line in stack.lines(name)] == ["clef_preprocess"]]
    assert len(unread) > asked / 10, "they were read, though nobody waited for them"
    assert {stack.lines(name)[0]["status"] for name in unread} == {504}


def test_o19_images_larger_than_the_shared_memory(stack, grpc):
    files = [os.urandom(8 * MIB)] * 16
    for _ in range(3):
        text = directly(grpc, files)
        assert isinstance(text, str) and "use '--shm-size' flag" in text
        assert directly(grpc, [picture(640)]) == 200
    images = [f"data:image/png;base64,{'A' * (8 * MIB)}"] * 16
    answer = httpx.post(f"{stack.frontend}/v1/systemone", json={"state": "x", "questions": NOUL, "images": images})
    assert answer.status_code == 413


def test_o19_many_requests_with_images_leave_the_shared_memory_flat(stack, grpc):
    """As many patches each as a request may have here, more at once than there is memory for."""
    image, used = picture(1000), []

    def one(_: int) -> int | str:
        return directly(grpc, [image], deadline_ms=int((time.time() + 4) * 1e3))

    for _ in range(3):
        with ThreadPoolExecutor(24) as pool:
            statuses = list(pool.map(one, range(int(40 * SOAK_FACTOR))))
        assert set(statuses) <= {200, 503, 504}
        assert statuses.count(200) >= RECORDS - 1
        used.append(stack.shared_bytes())
    assert used[2] == used[1] < 64 * MIB, used


def test_o19_where_one_caller_took_the_memory_others_are_told_that_it_is_full(stack, grpc):
    """A step's region never shrinks: half of the memory is the first step's from here on, so this test is the last."""
    assert directly(grpc, [os.urandom(8 * MIB)] * 4) == 413
    assert stack.shared_bytes() > 32 * MIB
    image = picture(1000)
    with ThreadPoolExecutor(24) as pool:
        statuses = list(pool.map(lambda index: through_http(stack, image, index), range(48)))
    assert set(statuses) <= {200, 503} and 200 in statuses


def through_http(stack: Stack, image: bytes, index: int) -> int:
    reference = f"data:image/png;base64,{base64.b64encode(image).decode()}"
    request = {"state": index, "questions": NOUL, "images": [reference]}
    return httpx.post(f"{stack.frontend}/v1/systemone", json=request, timeout=60).status_code
