"""The usage log as an operator reads it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx

from frontend.decisions import INLINE_BYTES
from preprocess.errors import InternalError
from tests.frontend.fakes import FakeEnsemble, FakeTriton
from tests.frontend.kserve_server import Kserve, serving
from tests.frontend.places import SECRET, Place, ask, opened, questions
from tests.frontend.processes import connectable, frontend
from tests.frontend.routes import ROUTES
from tests.frontend.running import NOUL, until_ready
from tests.golden_cases import CASES


async def test_one_row_a_request(place: Place, triton: FakeTriton) -> None:
    alice = place.add("alice")
    triton.fault = lambda call: InternalError() if b"boom" in call.body else None
    async with opened(place.settings(), triton) as client:
        answered = await ask(client, alice, questions=questions(3), state=SECRET)
        await ask(client, {"authorization": f"Bearer {SECRET}"})
        await ask(client)
        await ask(client, alice, questions={SECRET: {"type": SECRET}})
        await ask(client, alice, state="boom")
        await client.get("/v1/models")
        await client.get("/health")
    first, *others = place.rows()
    assert len(first.pop("id")) == 32
    assert abs(time.time() - sqlite_time(first.pop("time"))) < 60
    assert 0 < first.pop("milliseconds") < 10_000
    assert first == {
        "key_name": "alice",
        "model": "clef-flash",
        "dialect": "systemone",
        "status": 200,
        "questions": 3,
        "images": 0,
        "tokens": answered.json()["usage"]["input_tokens"],
        "batch_size": 3,
    }
    assert [(row["key_name"], row["status"]) for row in others] == [
        (None, 401),
        (None, 200),
        ("alice", 422),
        ("alice", 500),
    ]
    content = b"".join(file.read_bytes() for file in place.usage.parent.glob("usage.sqlite3*"))
    assert SECRET.encode() not in content and b"alice" in content


async def test_a_row_names_its_dialect(place: Place, triton: FakeTriton) -> None:
    async with opened(place.settings(), triton) as client:
        for path, (body, _) in ROUTES.items():
            assert (await client.post(path, json=body)).status_code == 200
        await client.post("/v1/decisions", json=NOUL)
        await client.post("/api/show", json={"model": "clef-flash"})
    rows = place.rows()
    assert [row["dialect"] for row in rows] == [*(dialect for _, dialect in ROUTES.values()), "systemone"]
    assert {(row["status"], row["questions"], row["images"]) for row in rows} == {(200, 1, 0)}


async def test_a_row_counts_images_in_bodies_of_any_length(place: Place, triton: FakeTriton) -> None:
    images = CASES["two-images"]["request"]["images"]
    async with opened(place.settings(), triton) as client:
        for padding in ("", " " * 2 * INLINE_BYTES):
            body = json.dumps({**NOUL, "images": images}) + padding
            assert (await client.post("/v1/systemone", content=body)).status_code == 200
    assert [row["images"] for row in place.rows()] == [2, 2]


async def test_a_batch_is_one_row(place: Place, triton: FakeTriton) -> None:
    items = [NOUL, {**NOUL, "questions": questions(4)}, {**NOUL, "questions": {}}]
    async with opened(place.settings(), triton) as client:
        response = await client.post("/v1/systemone/batch", json=items)
    (row,) = place.rows()
    tokens = sum(answer["usage"]["input_tokens"] for answer in response.json() if answer["status"] == 200)
    assert (row["dialect"], row["status"], row["questions"], row["tokens"]) == ("batch", 200, 5, tokens)


async def test_a_database_that_cannot_be_written_neither_fails_nor_slows_a_request(
    place: Place, triton: FakeTriton
) -> None:
    async with opened(place.settings(), triton) as client:
        whole = await seconds_of(client, 100)
    place.usage = place.usage.parent / "missing" / "usage.sqlite3"
    async with opened(place.settings(), triton) as client:
        assert await seconds_of(client, 100) < 2 * whole + 0.5


async def seconds_of(client: httpx.AsyncClient, requests: int) -> float:
    began = time.perf_counter()
    assert [(await ask(client)).status_code for _ in range(requests)] == [200] * requests
    return time.perf_counter() - began


async def test_a_stop_writes_what_was_answered(place: Place, ensemble: FakeEnsemble, tmp_path: Path) -> None:
    environment = {"SYSTEMONE_KEYS": str(place.keys), "SYSTEMONE_USAGE_URL": f"sqlite:///{place.usage}"}
    headers = place.add("alice")
    async with (
        serving(Kserve(ensemble)) as triton,
        frontend(tmp_path / "log", TRITON_URL=f"127.0.0.1:{triton}", **environment) as started,
        httpx.AsyncClient(base_url=started.url) as client,
    ):
        await connectable(client)
        await until_ready(client)
        for _ in range(20):
            assert (await ask(client, headers)).status_code == 200
        started.process.terminate()
        assert await started.stopped() == 0
    assert [(row["key_name"], row["status"]) for row in place.rows()] == [("alice", 200)] * 20


def sqlite_time(text: str) -> float:
    return time.mktime(time.strptime(text.partition(".")[0], "%Y-%m-%d %H:%M:%S")) - time.timezone
