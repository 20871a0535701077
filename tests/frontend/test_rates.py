from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from frontend.errors import PermissionDenied, RateLimited
from frontend.metrics import Metrics
from frontend.rates import MEMORY, Rates
from frontend.tiers import Caller, Tier
from tests.frontend.servers import Server, redis


def caller(name: str, decisions_per_minute: int | None) -> Caller:
    return Caller(key_name=name, account=f"key:{name}", tier=Tier(decisions_per_minute=decisions_per_minute))


@asynccontextmanager
async def opened(url: str = MEMORY, timeout_s: float = 5.0) -> AsyncIterator[Rates]:
    rates = Rates(url, timeout_s, Metrics())
    try:
        yield rates
    finally:
        await rates.close()


async def taken(rates: Rates, who: Caller, tries: int) -> int:
    """How many of so many requests, sent together, are taken."""
    results = await asyncio.gather(*(rates.take(who) for _ in range(tries)), return_exceptions=True)
    assert all(result is None or isinstance(result, RateLimited) for result in results), results
    return results.count(None)


def storage_is_up(rates: Rates) -> bool:
    return rates._metrics.registry.get_sample_value("systemone_rate_storage_up") == 1


async def until_up(rates: Rates) -> None:
    async with asyncio.timeout(10):
        while not storage_is_up(rates):
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with redis() as running:
        yield running


@pytest.fixture(params=["memory", "redis"])
def url(request: pytest.FixtureRequest) -> str:
    return MEMORY if request.param == "memory" else request.getfixturevalue("server").url


async def test_a_minute_has_room_for_the_rate_and_no_more(url: str) -> None:
    async with opened(url) as rates:
        assert await taken(rates, caller("exact", 30), tries=50) == 30
        assert rates._metrics.registry.get_sample_value("systemone_rate_limited_total") == 20


async def test_accounts_do_not_share_a_rate(url: str) -> None:
    async with opened(url) as rates:
        assert await taken(rates, caller("one", 3), tries=4) == 3
        assert await taken(rates, caller("another", 3), tries=4) == 3


async def test_a_tier_without_a_rate_is_never_limited(url: str) -> None:
    async with opened(url) as rates:
        assert await taken(rates, caller("free", None), tries=500) == 500


async def test_the_wait_is_until_the_oldest_decision_leaves_the_window(url: str) -> None:
    who = caller("waiting", 2)
    async with opened(url) as rates:
        began = time.time()
        await rates.take(who)
        await asyncio.sleep(0.5)
        await rates.take(who)
        with pytest.raises(RateLimited, match=r"2 decisions a minute.*Try again in 59\.\d s") as refused:
            await rates.take(who)
    assert began + 60 <= time.time() + refused.value.retry_after_s <= began + 60.4


async def test_a_batch_is_counted_as_a_whole_or_not_at_all(url: str) -> None:
    who = caller("batch", 10)
    async with opened(url) as rates:
        await rates.take(who, 4)
        await asyncio.sleep(0.5)
        second = time.time()
        await rates.take(who, 4)
        with pytest.raises(RateLimited) as refused:
            await rates.take(who, 7)
        # Two are free and four more in a minute from the first; the seventh only when the second batch leaves too.
        assert second + 60 <= time.time() + refused.value.retry_after_s <= second + 60.4
        await rates.take(who, 2)


async def test_more_at_once_than_the_rate_is_forbidden_and_not_a_matter_of_waiting(url: str) -> None:
    async with opened(url) as rates:
        await rates.take(caller("all", 10), 10)
        with pytest.raises(PermissionDenied, match=r"11 decisions at once.*10 a minute"):
            await rates.take(caller("too many", 10), 11)


async def test_the_window_moves(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    who = caller("moving", 2)
    now = time.time()
    async with opened(url) as rates:
        for at, expected in ((0, 1), (30, 1), (59, 0), (60.5, 1), (61, 0), (90.5, 1)):
            monkeypatch.setattr(time, "time", lambda at=at: now + at)
            assert await taken(rates, who, tries=1) == expected, f"at {at} s"


async def test_two_frontends_share_one_redis_and_one_rate(server: Server) -> None:
    who = caller("shared", 40)
    async with opened(server.url) as one, opened(server.url) as other:
        assert sum(await asyncio.gather(taken(one, who, 30), taken(other, who, 30))) == 40
        with pytest.raises(RateLimited):
            await one.take(who)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
async def test_redis_gone_and_back(server: Server, how: signal.Signals, caplog: pytest.LogCaptureFixture) -> None:
    who = caller(f"outage-{how.name}", 20)
    async with opened(server.url) as rates, opened(server.url) as other:
        await rates.take(who)
        server.stop(how)
        try:
            assert await taken(rates, who, 30) == 20, "each frontend holds the rate by itself"
            assert not storage_is_up(rates)
        finally:
            server.start()
        await until_up(rates)
        assert await taken(rates, who, 15) + await taken(other, who, 15) == 20, "and they share it again"
    lost = [record for record in caplog.records if record.getMessage().startswith("rate storage lost")]
    assert len(lost) == 1, "one line an outage, not one a request"


async def test_a_redis_that_hangs_costs_the_first_requests_its_timeout_and_the_next_nothing(server: Server) -> None:
    who = caller("hanging", 50)
    timeout_s = 1.0
    async with opened(server.url, timeout_s=timeout_s) as rates:
        await rates.take(who)
        server.signal(signal.SIGSTOP)
        try:
            began = time.perf_counter()
            assert await taken(rates, who, 10) == 10
            assert time.perf_counter() - began < 1.9 * timeout_s
            began = time.perf_counter()
            assert await taken(rates, who, 100) == 40
            assert time.perf_counter() - began < 0.9 * timeout_s
        finally:
            server.signal(signal.SIGCONT)
        await until_up(rates)


async def test_a_redis_that_takes_no_writes_is_lost_too(server: Server) -> None:
    async with opened(server.url) as rates:
        await rates.take(caller("before", 5))
        await configure(server, "CONFIG SET maxmemory 1")
        try:
            assert await taken(rates, caller("full", 5), 10) == 5
            await asyncio.sleep(1.2)
            assert not storage_is_up(rates), "an answer to a ping is not enough"
        finally:
            await configure(server, "CONFIG SET maxmemory 0")
        await until_up(rates)


async def test_a_redis_that_is_not_there_at_the_start(server: Server) -> None:
    server.stop()
    try:
        async with opened(server.url) as rates:
            assert await taken(rates, caller("early", 5), 6) == 5
    finally:
        server.start()


@pytest.mark.parametrize("url", ["nonsense", "http://127.0.0.1:6379", "memory", ""])
def test_a_url_of_no_storage_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="redis://"):
        Rates(url, 0.25, Metrics())


async def configure(server: Server, command: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write(command.encode() + b"\r\n")
    assert await reader.readline() == b"+OK\r\n"
    writer.close()
    await writer.wait_closed()
