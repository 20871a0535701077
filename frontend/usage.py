"""The usage log: one row a request, written in the background, with nothing of its content.

A request only ever puts a row into a bounded queue. One thread of its own writes them, some at a time, and waits out a
database that is full or gone; what finds the queue full meanwhile is dropped and counted.
"""

import asyncio
import dataclasses
import logging
import threading
import uuid
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from frontend.metrics import Metrics

_log = logging.getLogger(__name__)

QUEUE_ROWS = 10_000
BATCH_ROWS = 500
# One transaction a fifth of a second costs less than one a request, and loses as little when the process is killed.
GATHER_S = 0.2
RETRY_S = 1.0
FLUSH_S = 5.0

TABLE = sa.Table(
    "usage",
    sa.MetaData(),
    # Made here and not by the database, so that a batch whose commit was not confirmed can be written again.
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("time", sa.DateTime(timezone=True), nullable=False, index=True),
    sa.Column("key_name", sa.String),
    sa.Column("model", sa.String),
    sa.Column("dialect", sa.String, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("questions", sa.Integer),
    sa.Column("images", sa.Integer),
    sa.Column("tokens", sa.BigInteger),
    sa.Column("milliseconds", sa.Double, nullable=False),
    sa.Column("batch_size", sa.Integer),
)
_INSERT = {
    "sqlite": sqlite.insert(TABLE).on_conflict_do_nothing(),
    "postgresql": postgresql.insert(TABLE).on_conflict_do_nothing(),
}


class RowsRefused(Exception):
    """The database does not take these rows, however often they are offered."""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One request. None: it came to nothing before that was known. Times are UTC."""

    dialect: str
    status: int
    milliseconds: float
    key_name: str | None = None
    model: str | None = None
    questions: int | None = None
    images: int | None = None
    tokens: int | None = None
    batch_size: int | None = None
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


# `dataclasses.asdict` copies every value, which measured half the cost of a row.
_FIELDS = tuple(field.name for field in dataclasses.fields(UsageRow))


class UsageLog:
    """`url` is SQLAlchemy's: `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`."""

    def __init__(self, url: str, metrics: Metrics, queue_rows: int = QUEUE_ROWS) -> None:
        """Raises ValueError for a URL of no such database. Connects to nothing."""
        self._engine = _engine(url)
        self._insert = _INSERT[self._engine.dialect.name]
        self._metrics = metrics
        self._queue_rows = queue_rows
        self._queue: deque[UsageRow] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._table_exists = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._closing = False
        # A daemon: a database that hangs must not hold up the end of the process.
        self._thread = threading.Thread(target=self._run, name="usage-log", daemon=True)
        self._thread.start()

    def record(self, row: UsageRow) -> None:
        """Take a row, or count it as dropped where there is no room. Never waits for the database."""
        with self._changed:
            if self._closing or len(self._queue) >= self._queue_rows:
                self._metrics.usage_dropped.inc()
                return
            self._queue.append(row)
            if len(self._queue) in (1, BATCH_ROWS):
                self._changed.notify()

    async def close(self, flush_s: float = FLUSH_S) -> None:
        """Write what is queued, for at most `flush_s`."""
        assert self._thread is not None
        with self._changed:
            self._closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join, flush_s)
        if self._thread.is_alive():
            _log.error("usage log not flushed in time", extra={"fields": {"rows_queued": len(self._queue)}})

    def _run(self) -> None:
        while batch := self._next_batch():
            self._write(batch)
        self._engine.dispose()

    def _next_batch(self) -> list[UsageRow]:
        """Some rows, as soon as there are any; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            self._changed.wait_for(lambda: len(self._queue) >= BATCH_ROWS or self._closing, GATHER_S)
            return [self._queue.popleft() for _ in range(min(BATCH_ROWS, len(self._queue)))]

    def _write(self, batch: list[UsageRow]) -> None:
        """Until the database has taken the rows, or refused them, or the log is closed without it."""
        rows = [{name: getattr(row, name) for name in _FIELDS} for row in batch]
        waiting = False
        while True:
            try:
                self._insert_rows(rows)
            except DBAPIError as error:
                if not waiting:
                    _log.error("usage log cannot be written", extra={"fields": {"why": _why(error)}})
                waiting = True
                if self._closed_within(RETRY_S):
                    with self._changed:
                        batch += self._queue
                        self._queue.clear()
                    self._drop(batch, error)
                    return
            except Exception as error:  # whatever is wrong with these rows, the next are to be written
                self._drop(batch, error)
                return
            else:
                self._metrics.usage_written.inc(len(batch))
                if waiting:
                    _log.info("usage log is written again")
                return

    def _insert_rows(self, rows: list[dict[str, Any]]) -> None:
        """Raises RowsRefused where it is the rows that are wrong, else DBAPIError."""
        try:
            if not self._table_exists:
                TABLE.metadata.create_all(self._engine)
                self._table_exists = True
            with self._engine.begin() as connection:
                connection.execute(self._insert, rows)
        except DBAPIError as error:
            if self._table_exists and isinstance(error, DataError | IntegrityError):
                raise RowsRefused(_why(error)) from error
            # The next attempt begins anew: it may meet another server, and a database without the table.
            self._table_exists = False
            self._engine.dispose()
            raise

    def _closed_within(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._closing, seconds)

    def _drop(self, rows: list[UsageRow], error: Exception) -> None:
        self._metrics.usage_dropped.inc(len(rows))
        _log.error("usage rows dropped", extra={"fields": {"rows": len(rows), "why": _why(error)}})


def _engine(url: str) -> sa.Engine:
    try:
        engine = sa.create_engine(url, hide_parameters=True, pool_pre_ping=True, connect_args=_connect_args(url))
    except (SQLAlchemyError, ImportError) as error:
        raise ValueError(f"no database that can be used: {type(error).__name__}") from None
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _set_up_sqlite)
    return engine


def _connect_args(url: str) -> dict[str, Any]:
    match sa.make_url(url).drivername:
        case "sqlite":
            return {"timeout": 5.0}
        case "postgresql" | "postgresql+psycopg":
            # A server that vanished without a word is given up on, in seconds and in milliseconds.
            return {"connect_timeout": 5, "tcp_user_timeout": 10_000}
        case _:
            raise sa.exc.ArgumentError("neither sqlite:///… nor postgresql://…")


def _set_up_sqlite(connection: Any, _record: object) -> None:
    # Readers and other frontends may use the file meanwhile, and a commit need not wait for the disk.
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _why(error: Exception) -> str:
    """The driver's own first line: it names hosts and files, and holds no password and no value of a row."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return f"{type(cause).__name__}: {str(cause).partition(chr(10))[0]}"
