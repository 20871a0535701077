"""Keys, tiers, rates, the usage log and the metrics, as a client and an operator meet them."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from frontend import keyfile
from frontend.app import create_app
from frontend.decisions import EARLY_BYTES
from frontend.keyfile import SHIPPED_TIERS, KeyFile
from frontend.settings import Settings, SettingsError, read_settings
from frontend.tiers import Tier
from preprocess.errors import InternalError
from tests.frontend.fakes import FakeEnsemble, FakeTriton
from tests.frontend.kserve_server import Kserve, serving
from tests.frontend.routes import ROUTES
from tests.frontend.running import NOUL, assert_documented, body_of, client_of, until_ready
from tests.frontend.servers import redis
from tests.frontend.test_main import connectable, frontend
from tests.golden_cases import CASES

SECRET = "canary5520"
TIERS = {"gold": Tier(), "slow": Tier(decisions_per_minute=2), **SHIPPED_TIERS}


every_route = pytest.mark.parametrize("path", ROUTES)


class Place:
    """Where one frontend keeps its keys and its log."""

    def __init__(self, folder: Path) -> None:
        self.keys = folder / "keys.json"
        self.usage = folder / "usage.sqlite3"

    def add(self, name: str, tier: str = "gold", tiers: dict[str, Tier] | None = None) -> dict[str, str]:
        """A new key, as headers."""
        content = keyfile.read(self.keys) if self.keys.exists() else KeyFile(tiers=tiers or TIERS)
        content, key = content.with_new_key(name, tier)
        keyfile.write(self.keys, content)
        return {"authorization": f"Bearer {key}"}

    def settings(self, **settings: Any) -> Settings:
        return Settings(keys=self.keys, usage_url=f"sqlite:///{self.usage}", **settings)

    def rows(self) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.usage)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute('SELECT * FROM "usage" ORDER BY time')]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@asynccontextmanager
async def opened(settings: Settings, triton: FakeTriton) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(create_app(settings, triton)) as client:
        await until_ready(client)
        yield client


@pytest.fixture
async def client(place: Place, triton: FakeTriton) -> AsyncIterator[httpx.AsyncClient]:
    async with opened(place.settings(), triton) as client:
        yield client


async def ask(client: httpx.AsyncClient, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
    return await client.post("/v1/systemone", json={**NOUL, **fields}, headers=headers)


def questions(number: int) -> dict[str, Any]:
    return {f"q{index}": {"type": "noul"} for index in range(number)}


async def sample(client: httpx.AsyncClient, name: str, **labels: str) -> float | None:
    families = text_string_to_metric_families((await client.get("/metrics")).text)
    samples = [sample for family in families for sample in family.samples]
    return next((item.value for item in samples if item.name == name and item.labels == labels), None)


# Who may call


async def test_without_a_key_file_every_header_is_taken(client: httpx.AsyncClient) -> None:
    for headers in ({}, {"authorization": "Bearer anything"}, {"authorization": "Basic eDp5"}):
        assert (await ask(client, headers)).status_code == 200


async def test_a_missing_and_a_wrong_key_are_401(place: Place, triton: FakeTriton) -> None:
    good = place.add("alice", tiers={"gold": Tier()})
    app = create_app(place.settings(), triton)
    async with client_of(app) as client:
        await until_ready(client)
        assert (await ask(client, good)).status_code == 200
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": good["authorization"] + "x"}):
            refused = await ask(client, headers)
            assert refused.status_code == 401
            assert refused.json()["detail"]["error_type"] == "authentication_error"
            assert refused.headers["www-authenticate"] == "Bearer"
            assert_documented(app, refused)
        assert len(triton.real_calls) == 1


async def test_a_callers_key_is_looked_at_before_its_body(place: Place, client: httpx.AsyncClient) -> None:
    headers = place.add("alice", tiers={"gold": Tier()})
    too_long = body_of(14 * 1024 * 1024)
    assert (await client.post("/v1/systemone", content=too_long)).status_code == 401
    assert (await client.post("/v1/systemone", content=too_long, headers=headers)).status_code == 413


async def test_a_key_is_taken_and_revoked_while_the_server_runs(place: Place, client: httpx.AsyncClient) -> None:
    assert (await ask(client)).status_code == 200
    headers = place.add("alice", tiers={"gold": Tier()})
    assert [(await ask(client, sent)).status_code for sent in ({}, headers)] == [401, 200]
    keyfile.write(place.keys, keyfile.read(place.keys).without_key("alice"))
    assert (await ask(client, headers)).status_code == 401


async def test_health_metrics_and_models_need_no_key(place: Place, client: httpx.AsyncClient) -> None:
    place.add("alice", tiers={"gold": Tier()})
    for path in ("/health", "/metrics", "/v1/models", "/openapi.json"):
        assert (await client.get(path)).status_code == 200


@every_route
async def test_every_route_asks_for_the_key_and_holds_the_rate(
    place: Place, client: httpx.AsyncClient, path: str
) -> None:
    headers = place.add("slow", "slow", tiers={"slow": Tier(decisions_per_minute=2)})
    body, _ = ROUTES[path]
    statuses = [(await client.post(path, json=body, headers=sent)).status_code for sent in ({}, headers, headers)]
    assert statuses == [401, 200, 200]
    over = await client.post(path, json=body, headers=headers)
    assert over.status_code == 429
    assert 0 < int(over.headers["retry-after"]) <= 61


@every_route
async def test_every_route_applies_the_tier(
    place: Place, triton: FakeTriton, client: httpx.AsyncClient, path: str
) -> None:
    headers = place.add("alice", "cut", tiers={"cut": Tier(questions=5, tokens=4_000, body_bytes=10_000)})
    response = await client.post(path, json=ROUTES[path][0], headers=headers)
    assert response.status_code == 200
    sent = triton.real_calls[-1].parameters
    assert sent.items() >= {"max_questions": 5, "max_length": 4_000, "max_body_bytes": 10_000}.items()
    assert (await client.post(path, content=b"[" + b" " * 10_000, headers=headers)).status_code == 413


# Tiers


async def test_the_public_tiers_questions(place: Place, client: httpx.AsyncClient) -> None:
    headers = place.add("alice")
    assert (await ask(client, questions=questions(16))).status_code == 200
    refused = await ask(client, questions=questions(17))
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["loc"] == ["body", "questions"]
    assert "16" in refused.json()["detail"][0]["msg"]
    assert (await ask(client, headers, questions=questions(17))).status_code == 200


async def test_a_tiers_limits_go_with_the_request_to_the_ensemble(
    place: Place, client: httpx.AsyncClient, triton: FakeTriton
) -> None:
    headers = place.add("alice")
    await ask(client)
    assert triton.real_calls[-1].parameters == {"max_questions": 16, "max_images": 1, "max_length": 8192}
    await ask(client, headers)
    assert triton.real_calls[-1].parameters == {}


async def test_a_long_body_meets_the_tiers_limits_too(place: Place, client: httpx.AsyncClient) -> None:
    place.add("alice")
    short = await client.post("/v1/systemone", content=body_of(3_000, questions=questions(17)))
    long = await client.post("/v1/systemone", content=body_of(100_000, questions=questions(17)))
    assert short.status_code == long.status_code == 422
    assert short.content == long.content


async def test_a_tiers_tokens(place: Place, client: httpx.AsyncClient) -> None:
    headers = place.add("short", "short", tiers={"short": Tier(tokens=300)})
    assert (await ask(client, headers)).status_code == 200
    refused = await ask(client, headers, state="word " * 400)
    assert refused.status_code == 413
    assert "300" in refused.json()["detail"]["message"]


async def test_a_tiers_body(place: Place, client: httpx.AsyncClient) -> None:
    headers = place.add("small", "small", tiers={"small": Tier(body_bytes=2_000)})
    for size, status in ((2_000, 200), (2_001, 413)):
        response = await client.post("/v1/systemone", content=body_of(size), headers=headers)
        assert response.status_code == status
    assert "2000" in response.json()["detail"]["message"]


async def test_a_tier_raises_no_limit_of_the_server(place: Place) -> None:
    headers = place.add("large", "large", tiers={"large": Tier(questions=255)})
    async with opened(place.settings(), FakeTriton(FakeEnsemble(max_questions=3))) as client:
        assert (await ask(client, headers, questions=questions(3))).status_code == 200
        assert (await ask(client, headers, questions=questions(4))).status_code == 422


# Rates


async def test_over_the_rate_is_a_429_that_says_when_to_come_back(place: Place, triton: FakeTriton) -> None:
    slow, gold = place.add("slow", "slow"), place.add("gold")
    app = create_app(place.settings(), triton)
    async with client_of(app) as client:
        await until_ready(client)
        assert [(await ask(client, slow)).status_code for _ in range(2)] == [200, 200]
        refused = await ask(client, slow)
        assert refused.status_code == 429
        assert refused.json()["detail"]["error_type"] == "rate_limit_error"
        assert 58_000 < int(refused.headers["retry-after-ms"]) <= 60_001
        assert int(refused.headers["retry-after"]) in (59, 60, 61)
        assert_documented(app, refused)
        assert (await ask(client, gold)).status_code == 200, "another key has its own"
        assert await sample(client, "systemone_rate_limited_total") == 1


async def test_the_public_rate(place: Place, client: httpx.AsyncClient) -> None:
    place.add("alice")
    statuses = [(await ask(client)).status_code for _ in range(32)]
    assert statuses == [200] * 30 + [429] * 2


async def test_what_is_refused_for_its_content_counts_too(place: Place, client: httpx.AsyncClient) -> None:
    slow = place.add("slow", "slow")
    assert [(await ask(client, slow, questions={})).status_code for _ in range(3)] == [422, 422, 429]


async def test_each_item_of_a_batch_counts(place: Place, client: httpx.AsyncClient, triton: FakeTriton) -> None:
    headers = place.add("five", "five", tiers={"five": Tier(decisions_per_minute=5)})

    async def batch(items: int) -> int:
        return (await client.post("/v1/systemone/batch", json=[NOUL] * items, headers=headers)).status_code

    assert [await batch(3), await batch(3), await batch(2), await batch(1)] == [200, 429, 200, 429]
    assert len(triton.real_calls) == 5


async def test_a_batch_that_the_rate_never_has_room_for_is_403(place: Place, triton: FakeTriton) -> None:
    headers = place.add("five", "five", tiers={"five": Tier(decisions_per_minute=5)})
    app = create_app(place.settings(), triton)
    async with client_of(app) as client:
        await until_ready(client)
        refused = await client.post("/v1/systemone/batch", json=[NOUL] * 6, headers=headers)
    assert refused.status_code == 403
    assert refused.json()["detail"]["error_type"] == "permission_error"
    assert_documented(app, refused)


async def test_frontends_with_one_redis_hold_one_rate_and_answer_without_it(place: Place, triton: FakeTriton) -> None:
    slow = place.add("shared", "slow")
    with redis() as server:
        async with AsyncExitStack() as stack:
            settings = place.settings(rate_storage=server.url)
            clients = [await stack.enter_async_context(opened(settings, triton)) for _ in range(2)]
            assert [(await ask(client, slow)).status_code for client in clients] == [200, 200]
            assert [(await ask(client, slow)).status_code for client in clients] == [429, 429]
            server.stop()
            assert [(await ask(client, slow)).status_code for client in clients] == [200, 200]
            assert await sample(clients[0], "systemone_rate_storage_up") == 0
            server.start()


# The usage log


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
        for padding in ("", " " * 2 * EARLY_BYTES):
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


# Metrics


async def test_metrics_count_requests_by_dialect_and_status(client: httpx.AsyncClient) -> None:
    tokens = (await ask(client)).json()["usage"]["input_tokens"]
    await ask(client, questions={})
    await client.get("/no-such-route")
    assert await sample(client, "systemone_requests_total", dialect="systemone", status="200") == 1
    assert await sample(client, "systemone_requests_total", dialect="systemone", status="422") == 1
    assert await sample(client, "systemone_request_seconds_count", dialect="systemone") == 2
    assert await sample(client, "systemone_step_seconds_sum", step="compute") == pytest.approx(0.0025)
    assert await sample(client, "systemone_batch_records_sum") == 3
    assert await sample(client, "systemone_input_tokens_total") == tokens
    async with asyncio.timeout(10):
        while await sample(client, "systemone_usage_rows_written_total") != 2:
            await asyncio.sleep(0.05)
    assert await sample(client, "systemone_usage_rows_dropped_total") == 0


async def test_metrics_tell_what_is_in_flight(place: Place, triton: FakeTriton) -> None:
    async with opened(place.settings(), triton) as client:
        triton.latency_s = 0.3
        running = asyncio.create_task(ask(client))
        await asyncio.sleep(0.1)
        assert await sample(client, "systemone_in_flight") == 1
        assert (await running).status_code == 200
        assert await sample(client, "systemone_in_flight") == 0


async def test_metrics_have_a_bounded_set_of_labels(place: Place, client: httpx.AsyncClient) -> None:
    keys = [place.add(f"key{number}") for number in range(3)]
    for headers in keys:
        await ask(client, headers)
        await client.post(f"/v1/{SECRET}", json=NOUL, headers=headers)
        await ask(client, headers, model=SECRET)
    response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    labels = {name for name, _ in re.findall(r'(\w+)="([^"]*)"', response.text)}
    assert labels == {"dialect", "status", "step", "le"}
    assert SECRET not in response.text and "key1" not in response.text


# Logs, the document, the start and the stop


async def test_the_document_says_where_a_key_goes(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert document["components"]["securitySchemes"] == {"key": {"type": "http", "scheme": "bearer"}}
    secured = {
        path for path, methods in document["paths"].items() for found in methods.values() if found.get("security")
    }
    template = "/client/v4/accounts/{account}/ai/run/@cf/cloudflare/{model}"
    assert secured == {template if path.startswith("/client/") else path for path in ROUTES}


async def test_no_key_is_in_the_log(place: Place, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    headers = place.add("alice")
    with caplog.at_level(logging.DEBUG):
        await ask(client, headers)
        await ask(client, {"authorization": f"Bearer {SECRET}"})
    said = "".join(str(record.__dict__) for record in caplog.records if not record.name.startswith("httpx"))
    assert "'key': 'alice'" in said
    for key in (headers["authorization"].removeprefix("Bearer "), SECRET):
        assert key not in said
        assert keyfile.hash_of(key) not in said


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ({"rate_storage": "http://redis"}, "SYSTEMONE_RATE_STORAGE"),
        ({"usage_url": "mysql://h/d"}, "SYSTEMONE_USAGE_URL"),
    ],
)
def test_a_wrong_setting_is_no_start(triton: FakeTriton, settings: dict[str, str], variable: str) -> None:
    with pytest.raises(SettingsError, match=variable):
        create_app(Settings(**settings), triton)  # type: ignore[arg-type]


def test_settings_are_read_from_the_environment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "SYSTEMONE_KEYS": str(place.keys),
        "SYSTEMONE_RATE_STORAGE": "redis://redis:6379",
        "SYSTEMONE_RATE_TIMEOUT_MS": "70",
        "SYSTEMONE_USAGE_URL": "postgresql://clef@db/clef",
    }.items():
        monkeypatch.setenv(name, value)
    settings = read_settings()
    assert (settings.keys, settings.rate_storage) == (place.keys, "redis://redis:6379")
    assert (settings.rate_timeout_ms, settings.usage_url) == (70, "postgresql://clef@db/clef")


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


def test_a_broken_key_file_is_no_start(place: Place, triton: FakeTriton) -> None:
    place.keys.write_text('{"tiers": {}, "keys": [{}]}')
    with pytest.raises(SettingsError, match="SYSTEMONE_KEYS"):
        create_app(place.settings(), triton)


def sqlite_time(text: str) -> float:
    return time.mktime(time.strptime(text.partition(".")[0], "%Y-%m-%d %H:%M:%S")) - time.timezone
