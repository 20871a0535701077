from __future__ import annotations

import dataclasses
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.rows import dict_row

from frontend.metrics import Metrics
from frontend.usage import UsageLog, UsageRow
from tests.frontend.servers import Server, postgresql, until

ROW = UsageRow(
    dialect="systemone",
    status=200,
    milliseconds=12.5,
    key_name="alice",
    model="clef-flash",
    questions=3,
    images=1,
    tokens=468,
    batch_size=2,
)


def rows(*of: int) -> list[UsageRow]:
    """Rows with these tokens (as `range` takes them), and ids that follow from them."""
    return [dataclasses.replace(ROW, tokens=tokens, id=f"{tokens:032x}") for tokens in range(*of)]


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[UsageLog]:
    log = UsageLog(url, Metrics(), **settings)
    log.start()
    try:
        yield log
    finally:
        await log.close()


def counts(log: UsageLog) -> tuple[int, int]:
    """Rows written and dropped, as the metrics tell."""
    registry = log._metrics.registry
    written = registry.get_sample_value("systemone_usage_rows_written_total")
    dropped = registry.get_sample_value("systemone_usage_rows_dropped_total")
    assert written is not None and dropped is not None
    return int(written), int(dropped)


def until_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    until(lambda: "usage log cannot be written" in caplog.text)


def slowest_record_s(log: UsageLog, taken: list[UsageRow]) -> float:
    slowest = 0.0
    for row in taken:
        began = time.perf_counter()
        log.record(row)
        slowest = max(slowest, time.perf_counter() - began)
    return slowest


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "usage.sqlite3"


def in_file(file: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute('SELECT * FROM "usage" ORDER BY tokens')]


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    with postgresql() as server:
        yield server


@pytest.fixture
def empty(database: Server) -> Server:
    with psycopg.connect(database.url) as connection:
        connection.execute('DROP TABLE IF EXISTS "usage"')
    return database


def in_database(database: Server) -> list[dict[str, Any]]:
    with psycopg.connect(database.url, row_factory=dict_row) as connection:
        return connection.execute('SELECT * FROM "usage" ORDER BY tokens').fetchall()


async def test_a_row_holds_the_contracts_fields_and_no_other(file: Path) -> None:
    async with opened(f"sqlite:///{file}") as log:
        log.record(ROW)
    (row,) = in_file(file)
    assert row.pop("time") == ROW.time.strftime("%Y-%m-%d %H:%M:%S.%f")
    assert row.pop("id") == ROW.id
    assert row == {
        "key_name": "alice",
        "model": "clef-flash",
        "dialect": "systemone",
        "status": 200,
        "questions": 3,
        "images": 1,
        "tokens": 468,
        "milliseconds": 12.5,
        "batch_size": 2,
    }


async def test_rows_are_written_while_the_server_runs(file: Path) -> None:
    async with opened(f"sqlite:///{file}") as log:
        log.record(ROW)
        until(lambda: counts(log) == (1, 0), within_s=5)
        assert len(in_file(file)) == 1


async def test_closing_writes_what_is_queued(file: Path) -> None:
    async with opened(f"sqlite:///{file}") as log:
        for row in rows(3_000):
            log.record(row)
    assert counts(log) == (3_000, 0)
    assert [row["tokens"] for row in in_file(file)] == list(range(3_000))
    log.record(ROW)
    assert counts(log) == (3_000, 1), "a row after the end is counted"


async def test_no_file_is_made_before_there_is_a_row(file: Path) -> None:
    async with opened(f"sqlite:///{file}"):
        pass
    assert not file.exists()


async def test_a_full_database_takes_up_again_where_there_is_room(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(f"sqlite:///{file}", queue_rows=1_000) as log:
        # What SQLite does on a full disk it does at its own limit too.
        limit = 8

        @sa.event.listens_for(log._engine, "connect")
        def _limited(connection: sqlite3.Connection, _record: object) -> None:
            connection.execute(f"PRAGMA max_page_count = {limit}")

        # The writer holds what fills the file; the queue takes 1,000 behind it.
        first = rows(500)
        for row in first:
            log.record(row)
        until_it_fails(caplog)
        assert "full" in caplog.records[-1].fields["why"]
        more = rows(1_000, 2_500)
        assert slowest_record_s(log, more) < 0.5
        assert counts(log) == (0, 500)
        limit = 10_000
        until(lambda: counts(log) == (1_500, 500), within_s=10)
    assert [row["tokens"] for row in in_file(file)] == [*range(500), *range(1_000, 2_000)]


async def test_a_database_that_cannot_be_made_costs_rows_and_nothing_else(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path}/missing/usage.sqlite3", queue_rows=5) as log:
        assert slowest_record_s(log, rows(100)) < 0.5
        began = time.perf_counter()
    assert time.perf_counter() - began < 2, "closing does not wait for it either"
    assert counts(log) == (0, 100)


async def test_a_row_that_the_database_refuses_does_not_hold_up_the_next(empty: Server) -> None:
    async with opened(empty.url) as log:
        log.record(rows(2**63, 2**63 + 1)[0])
        until(lambda: counts(log) == (0, 1))
        log.record(ROW)
    assert counts(log) == (1, 1)
    assert [row["tokens"] for row in in_database(empty)] == [468]


async def test_postgresql_by_url(empty: Server) -> None:
    async with opened(empty.url) as log:
        log.record(ROW)
    assert in_database(empty) == [dataclasses.asdict(ROW)]


async def test_two_frontends_write_one_table(empty: Server) -> None:
    async with opened(empty.url) as one, opened(empty.url) as other:
        for log, taken in ((one, rows(400)[:200]), (other, rows(400)[200:])):
            for row in taken:
                log.record(row)
    assert counts(one) == counts(other) == (200, 0)
    assert [row["tokens"] for row in in_database(empty)] == list(range(400))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
async def test_postgresql_gone_and_back(empty: Server, how: signal.Signals, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(empty.url) as log:
        log.record(ROW)
        until(lambda: counts(log) == (1, 0))
        empty.stop(how)
        try:
            assert slowest_record_s(log, rows(300)) < 0.5
            until_it_fails(caplog)
        finally:
            empty.start()
        until(lambda: counts(log) == (301, 0))
    assert sorted(row["tokens"] for row in in_database(empty)) == sorted([*range(300), 468])


async def test_a_database_that_hangs_holds_up_nothing(empty: Server) -> None:
    async with opened(empty.url, queue_rows=10) as log:
        log.record(ROW)
        until(lambda: counts(log) == (1, 0))
        empty.signal(signal.SIGSTOP)
        try:
            log.record(rows(1)[0])
            until(lambda: not log._queue)
            assert slowest_record_s(log, rows(100)) < 0.5
            assert counts(log) == (1, 90)
            began = time.perf_counter()
            await log.close(flush_s=0.5)
            assert time.perf_counter() - began < 2
        finally:
            empty.signal(signal.SIGCONT)


async def test_a_batch_whose_commit_was_not_confirmed_is_not_written_twice(empty: Server) -> None:
    for _ in range(2):
        async with opened(empty.url) as log:
            for row in rows(10):
                log.record(row)
    assert len(in_database(empty)) == 10


@pytest.mark.parametrize("url", ["nonsense", "mysql://h/d", "postgres://h/d", "postgresql+asyncpg://h/d", ""])
def test_a_url_of_no_such_database_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="database"):
        UsageLog(url, Metrics())


async def test_the_log_of_an_outage_names_no_password(caplog: pytest.LogCaptureFixture) -> None:
    async with opened("postgresql://clef:hunter2@127.0.0.1:1/postgres") as log:
        log.record(ROW)
        until_it_fails(caplog)
    said = [str(record.__dict__) for record in caplog.records]
    assert said and "hunter2" not in "".join(said)
