from __future__ import annotations

import asyncio
import gzip
import json
import time
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from frontend.app import create_app
from frontend.batch import split
from frontend.documents import BATCH_EXAMPLE
from frontend.settings import Settings
from preprocess.errors import InternalError, InvalidJson, Overloaded, ServiceError, ValidationFailed
from tests.frontend.fakes import Call, FakeEnsemble, FakeTriton
from tests.frontend.running import NOUL, assert_documented, client_of, until_ready
from tests.golden_cases import CASES
from tests.invariants import assert_answer

PATH = "/v1/systemone/batch"
THREE = CASES["three-types"]["request"]


async def post(client: httpx.AsyncClient, *items: bytes) -> httpx.Response:
    return await client.post(PATH, content=b"[" + b",".join(items) + b"]")


def noul(state: Any) -> bytes:
    return json.dumps({**NOUL, "state": state}).encode()


async def test_each_item_gets_its_answer_in_order(client: httpx.AsyncClient, app: FastAPI, triton: FakeTriton) -> None:
    requests = [THREE, NOUL, THREE | {"state": {"other": 1}}, BATCH_EXAMPLE[0]]
    response = await client.post(PATH, json=requests)
    assert response.status_code == 200
    assert_documented(app, response)
    answers = response.json()
    assert [answer.pop("status") for answer in answers] == [200] * 4
    for request, answer in zip(requests, answers, strict=True):
        assert_answer(request, answer)
    assert triton.model is not None
    assert response.headers["x-model-revision"] == triton.model.revision
    assert response.headers["server-timing"].startswith("total;dur=")


async def test_an_answer_is_the_ensembles_byte_for_byte(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    request = {**NOUL, "questions": {"é\u2028": {"type": "choice", "criteria": {"b": None, "10": None, "2": None}}}}
    body = json.dumps(request, ensure_ascii=False).encode()
    response = await post(client, body, body)
    alone = triton.ensemble(body, [], {}).response
    assert response.content == b'[{"status":200,' + alone[1:] + b',{"status":200,' + alone[1:] + b"]"


async def test_an_item_goes_on_as_it_came(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    items = [b'{"state" : 1e+22 ,"questions":{"q":{"type":"noul"}}, "unknown":-0.0}', noul("é")]
    response = await client.post(PATH, content=b"\n[ " + items[0] + b"\r\n,\t" + items[1] + b" ] ")
    assert response.status_code == 200
    assert [call.body for call in triton.real_calls] == items


async def test_an_items_id_tells_its_place(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    await client.post(PATH, json=[NOUL, NOUL], headers={"x-request-id": "mine"})
    assert [call.request_id for call in triton.real_calls] == ["mine.0", "mine.1"]


BAD: dict[str, tuple[int, bytes]] = {
    "a number": (400, b"5"),
    "null": (400, b"null"),
    "an array": (400, b"[]"),
    "NaN": (400, b'{"state":NaN,"questions":{"q":{"type":"noul"}}}'),
    "an infinite number": (400, b'{"state":1e400,"questions":{"q":{"type":"noul"}}}'),
    "5,000 digits": (400, b'{"state":' + b"1" * 5_000 + b',"questions":{"q":{"type":"noul"}}}'),
    "a lone surrogate": (400, b'{"state":"\\ud800","questions":{"q":{"type":"noul"}}}'),
    "a raw tab": (422, b'{"state":"\t","questions":{"q":{"type":"noul"}}}'),
    "an unknown model": (400, b'{"state":"","model":"x","questions":{"q":{"type":"noul"}}}'),
    "nothing in it": (422, b"{}"),
    "repeated keys": (422, b'{"state":"","state":"","questions":{"q":{"type":"noul"}}}'),
    "deep": (422, b'{"state":' + b"[" * 100 + b"]" * 100 + b',"questions":{"q":{"type":"noul"}}}'),
    "a box": (422, b'{"state":"","questions":{"q":{"type":"box"}}}'),
    "too many tokens": (413, noul("word " * 20_000)),
    "a hundred faults": (422, json.dumps({"state": "", "questions": {f"q{i}": {} for i in range(60)}}).encode()),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_item_fails_alone_and_as_it_would_alone(client: httpx.AsyncClient, app: FastAPI, name: str) -> None:
    status, bad = BAD[name]
    response = await post(client, noul("first"), bad, noul("last"))
    assert response.status_code == 200
    assert_documented(app, response)
    first, failed, last = response.json()
    assert first["status"] == last["status"] == 200
    alone = await client.post("/v1/systemone", content=bad)
    assert alone.status_code == status
    assert failed == {"status": status, **alone.json()}


async def test_each_kind_of_failure_stays_with_its_item(
    client: httpx.AsyncClient, app: FastAPI, triton: FakeTriton
) -> None:
    faults: dict[str, ServiceError] = {"full": Overloaded("The queue is full."), "broken": InternalError("inside")}

    def fault(call: Call) -> Exception | None:
        return faults.get(json.loads(call.body)["state"])

    triton.fault = fault
    headers = {"x-request-id": "mine"}
    response = await client.post(PATH, json=[{**NOUL, "state": s} for s in ("full", "ok", "broken")], headers=headers)
    assert response.status_code == 200
    assert_documented(app, response)
    full, ok, broken = response.json()
    assert full == {"status": 503, "detail": {"error_type": "overloaded_error", "message": "The queue is full."}}
    assert ok["status"] == 200
    assert (broken["status"], broken["detail"]["error_type"]) == (500, "api_error")
    assert "mine.2" in broken["detail"]["message"]
    assert "inside" not in response.text


REFUSED: dict[str, tuple[int, bytes]] = {
    "nothing": (400, b""),
    "no JSON": (400, b"hello"),
    "one request": (400, json.dumps(NOUL).encode()),
    "no end": (422, b"[" + noul("")),
    "no commas": (422, b"[" + noul("") + noul("") + b"]"),
    "a last comma": (422, b"[" + noul("") + b",]"),
    "a first comma": (422, b"[,{}]"),
    "more after it": (422, b"[" + noul("") + b"]]"),
    "a broken item": (422, b'[{"state":}]'),
    "not UTF-8": (400, b'["\xff"]'),
    "no items": (422, b" [ ] "),
    "33 items": (422, b"[" + b",".join([b"5"] * 33) + b"]"),
    "deeper than can be read": (422, b"[" * 100_000),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_no_batch_is_refused_as_one(
    client: httpx.AsyncClient, app: FastAPI, triton: FakeTriton, name: str
) -> None:
    status, body = REFUSED[name]
    response = await client.post(PATH, content=body)
    assert response.status_code == status
    assert len(response.content) < 4_096
    assert_documented(app, response)
    assert triton.real_calls == []


async def test_thirty_two_items_and_no_more(client: httpx.AsyncClient) -> None:
    assert len((await client.post(PATH, json=[NOUL] * 32)).json()) == 32
    assert (await client.post(PATH, json=[NOUL] * 33)).status_code == 422


async def test_a_batch_has_one_bodys_bytes(client: httpx.AsyncClient, app: FastAPI) -> None:
    limit = 13 * 1024 * 1024
    padding = b" " * (limit - len(noul("")) - 2)
    whole = await post(client, noul("") + padding)
    assert [answer["status"] for answer in whole.json()] == [200]
    over = await post(client, noul("") + padding + b" ")
    assert over.status_code == 413
    assert_documented(app, over)


async def test_a_batch_may_be_packed(client: httpx.AsyncClient) -> None:
    body = gzip.compress(b"[" + noul("x") + b"]")
    response = await client.post(PATH, content=body, headers={"content-encoding": "gzip"})
    assert [answer["status"] for answer in response.json()] == [200]


async def test_items_run_together_but_not_all_at_once(ensemble: FakeEnsemble) -> None:
    running, most = 0, 0

    class Counting(FakeTriton):
        async def decide(self, body: bytes, **arguments: Any) -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            try:
                return await super().decide(body, **arguments)
            finally:
                running -= 1

    triton = Counting(ensemble)
    async with client_of(create_app(Settings(batch_concurrency=3, health_interval_ms=60_000), triton)) as client:
        await until_ready(client)
        triton.latency_s = 0.05
        most = 0
        answers = (await client.post(PATH, json=[NOUL] * 7)).json()
    assert [answer["status"] for answer in answers] == [200] * 7
    assert most == 3


async def test_all_items_share_one_requests_time(ensemble: FakeEnsemble) -> None:
    triton = FakeTriton(ensemble)
    settings = Settings(batch_concurrency=1, request_timeout_ms=1_250, health_interval_ms=60_000)
    async with client_of(create_app(settings, triton)) as client:
        await until_ready(client)
        triton.latency_s = 0.5
        began = time.monotonic()
        answers = (await client.post(PATH, json=[NOUL] * 8)).json()
        assert time.monotonic() - began < 8 * triton.latency_s
    assert [answer["status"] for answer in answers] == [200, 200, *[504] * 6]
    assert len({call.deadline for call in triton.real_calls}) == 1


async def test_items_take_places_like_requests(ensemble: FakeEnsemble) -> None:
    triton = FakeTriton(ensemble)
    async with client_of(create_app(Settings(max_in_flight=3, health_interval_ms=60_000), triton)) as client:
        await until_ready(client)
        triton.latency_s = 0.05
        answers = (await client.post(PATH, json=[NOUL] * 4)).json()
        assert sorted(answer["status"] for answer in answers) == [200, 200, 503, 503]
        triton.latency_s = 0
        assert (await client.post("/v1/systemone", json=NOUL)).status_code == 200


async def test_a_batch_that_is_abandoned_stops(ensemble: FakeEnsemble) -> None:
    triton = FakeTriton(ensemble)
    async with client_of(create_app(Settings(batch_concurrency=2, health_interval_ms=60_000), triton)) as client:
        await until_ready(client)
        triton.latency_s = 0.5
        asking = asyncio.create_task(client.post(PATH, json=[NOUL] * 8))
        while len(triton.real_calls) < 2:
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.sleep(2 * triton.latency_s)
        assert asking.cancelled() and len(triton.real_calls) == 2


def test_items_are_cut_as_they_stand() -> None:
    items = [
        b'{"a":[1,{"]":"}"}]}',
        '"é\u2028,]"'.encode(),
        b"-1.50E+3",
        b"NaN",
        b"[[],[]]",
        b'"\\ud800"',
        b"9" * 9_000,
    ]
    assert split(b" [" + b" ,\n".join(items) + b"\t]\r\n", 7) == items
    with pytest.raises(ValidationFailed):
        split(b"[" + b",".join(items) + b"]", 6)


def test_too_many_items_are_not_read_to_their_end() -> None:
    with pytest.raises(ValidationFailed):
        split(b"[" + b"1," * 4_000_000, 32)
    with pytest.raises(InvalidJson):
        split(b"[" + b"1," * 31 + b"?", 32)


async def test_the_bound_is_listed_among_the_limits(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/models")).json()["x_limits"]["max_batch_items"] == 32
