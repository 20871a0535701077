"""The disk is full, PostgreSQL is gone, Redis is gone: requests are answered, and what they leave is written later."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from frontend import keyfile
from frontend.keyfile import PUBLIC, KeyFile
from frontend.tiers import Tier
from tests.frontend.servers import Server, postgresql, redis
from tests.stack.load import canary, post
from tests.stack.running import start_frontend


def until(condition: Callable[[], bool], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def metric(url: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", httpx.get(f"{url}/metrics", timeout=10).text, re.MULTILINE)
    assert found
    return float(found[1])


def logged(log: Path, message: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines() if line.startswith("{")]
    return [line for line in lines if line["message"] == message]


def fill(file: Path) -> None:
    """Until its file system has no room."""
    with file.open("wb", buffering=0) as opened:
        for size in (4096, 1):
            with suppress(OSError):
                while True:
                    opened.write(b"x" * size)


def test_a_full_disk_under_the_usage_log(stack, tmp_path):
    def ask(count: int) -> None:
        for number in range(count):
            assert httpx.post(f"{url}/v1/systemone", json=canary(number), timeout=60).status_code == 200

    usage = f"sqlite:///{tmp_path}/disk/usage.sqlite3"
    with start_frontend(tmp_path, stack.ports, disk="1m", SYSTEMONE_USAGE_URL=usage) as (url, frontend):
        log, disk = tmp_path / "frontend.log", Path(f"/proc/{frontend.pid}/root{tmp_path}/disk")
        fill(disk / "filler")
        with pytest.raises(OSError) as full:
            (disk / "more").write_bytes(b"x" * 4096)
        assert full.value.errno == errno.ENOSPC
        ask(10)
        until(lambda: logged(log, "usage log cannot be written") != [])
        assert metric(url, "systemone_usage_rows_written_total") == 0
        (disk / "filler").unlink()
        until(lambda: metric(url, "systemone_usage_rows_written_total") == 10)
        assert metric(url, "systemone_usage_rows_dropped_total") == 0

        fill(disk / "filler")
        ask(7)
        until(lambda: len(logged(log, "usage log cannot be written")) == 2)
        frontend.send_signal(signal.SIGTERM)
        assert frontend.wait(30) == 0
    assert sum(line["rows"] for line in logged(log, "usage rows dropped")) == 7


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    with postgresql() as server:
        yield server


@pytest.fixture(scope="module")
def rates() -> Iterator[Server]:
    with redis() as server:
        yield server


async def test_postgresql_and_redis_gone_and_back_under_load(stack, tmp_path, database, rates):
    answered: list[int] = []
    ending = asyncio.Event()
    numbers = itertools.count()

    async def one(client: httpx.AsyncClient) -> None:
        while not ending.is_set():
            outcome = await post(client, canary(next(numbers) % 100))
            outcome.answer()
            answered.append(outcome.status)

    async def more(count: int) -> None:
        wanted = len(answered) + count
        async with asyncio.timeout(60):
            while len(answered) < wanted:
                assert not any(client.done() for client in clients), [client.exception() for client in clients]
                await asyncio.sleep(0.02)

    # Everybody has a rate, so that each request asks Redis.
    keyfile.write(tmp_path / "keys.json", KeyFile(tiers={PUBLIC: Tier(decisions_per_minute=100_000)}))
    places = {"SYSTEMONE_USAGE_URL": database.url, "SYSTEMONE_RATE_STORAGE": rates.url}
    with start_frontend(tmp_path, stack.ports, **places) as (url, _):
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            clients = [asyncio.create_task(one(client)) for _ in range(8)]
            await more(20)
            database.stop(signal.SIGQUIT)
            rates.stop(signal.SIGKILL)
            await more(40)
            assert metric(url, "systemone_rate_storage_up") == 0
            await asyncio.to_thread(database.start)
            await asyncio.to_thread(rates.start)
            await more(40)
            ending.set()
            await asyncio.gather(*clients)
        until(lambda: metric(url, "systemone_rate_storage_up") == 1)
        until(lambda: metric(url, "systemone_usage_rows_written_total") == len(answered))
        assert metric(url, "systemone_usage_rows_dropped_total") == 0
    with psycopg.connect(database.url) as connection:
        rows = connection.execute('SELECT status, count(*) FROM "usage" GROUP BY status').fetchall()
    assert rows == [(200, len(answered))]
