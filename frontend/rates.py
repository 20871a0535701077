"""Decisions a minute: exact moving windows, in this process or in a Redis that several frontends share.

While Redis cannot be reached, each frontend counts by itself under the same limits. No request fails or waits for it,
and a caller gets at most its rate from each frontend, where letting everything through would be no limit at all.
"""

import asyncio
import logging
import time

from limits import RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import MovingWindowRateLimiter
from redis.asyncio import BlockingConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from frontend.errors import PermissionDenied, RateLimited
from frontend.metrics import Metrics
from frontend.tiers import Caller

_log = logging.getLogger(__name__)

MEMORY = "memory://"
_PREFIX = "systemone"
_CONNECTIONS = 32
_PROBE_INTERVAL_S = 0.5
_LOST = (RedisError, OSError, TimeoutError)


class Rates:
    """The windows of every account. `storage_url` is `memory://`, `redis://…`, `rediss://…` or `unix://…`."""

    def __init__(self, storage_url: str, timeout_s: float, metrics: Metrics) -> None:
        """Raises ValueError for a URL that names no storage. Connects to nothing."""
        self._metrics = metrics
        self._local = _Windows(_Memory())
        self._shared = None if storage_url == MEMORY else _Shared(storage_url, timeout_s)
        self._probing: asyncio.Task[None] | None = None
        metrics.rate_storage_up.set(1)

    async def take(self, caller: Caller, decisions: int = 1) -> None:
        """Count `decisions` to the caller's rate: all of them, or none.

        Raises RateLimited, and PermissionDenied for more decisions than the rate ever has room for.
        """
        limit = caller.tier.decisions_per_minute
        if limit is None:
            return
        if decisions > limit:
            raise PermissionDenied(f"{decisions} decisions at once: this tier has {limit} a minute.")
        wait_s = await self._wait_s(caller.account, limit, decisions)
        if wait_s is not None:
            self._metrics.rate_limited.inc()
            raise RateLimited(limit, wait_s)

    async def close(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing])
        if self._shared is not None:
            await self._shared.close()

    async def _wait_s(self, account: str, limit: int, decisions: int) -> float | None:
        if self._shared is not None and self._probing is None:
            try:
                return await self._shared.take(account, limit, decisions)
            except _LOST as error:
                self._lost(self._shared, error)
        return await self._local.take(account, limit, decisions)

    def _lost(self, shared: "_Shared", error: Exception) -> None:
        if self._probing is None:
            _log.error("rate storage lost, counting here", extra={"fields": {"why": type(error).__name__}})
            self._metrics.rate_storage_up.set(0)
            self._probing = asyncio.create_task(self._probe(shared))

    async def _probe(self, shared: "_Shared") -> None:
        while True:
            await asyncio.sleep(_PROBE_INTERVAL_S)
            try:
                # A write: a Redis that is full or a replica answers pings.
                await shared.take("probe", 1_000, 1)
                break
            except _LOST:
                continue
        _log.info("rate storage is back")
        self._metrics.rate_storage_up.set(1)
        self._probing = None


class _Shared:
    """Windows in a Redis, with a bound on its connections and on the time of every exchange."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._pool = BlockingConnectionPool.from_url(
            url,
            max_connections=_CONNECTIONS,
            timeout=timeout_s,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            # A connection that Redis closed while it was idle is opened again, once, at once.
            retry=Retry(NoBackoff(), 1),
        )
        # limits' own types know no pool; the URL is the pool's.
        storage = RedisStorage(
            "async+redis://",
            implementation="redispy",
            key_prefix=_PREFIX,
            connection_pool=self._pool,  # type: ignore[arg-type]
        )
        self._windows = _Windows(storage)

    async def take(self, account: str, limit: int, decisions: int) -> float | None:
        """As the windows' own. Raises one of _LOST."""
        async with asyncio.timeout(self._timeout_s):
            return await self._windows.take(account, limit, decisions)

    async def close(self) -> None:
        await self._pool.disconnect()


class _Windows:
    def __init__(self, storage: MemoryStorage | RedisStorage) -> None:
        self._storage = storage
        self._limiter = MovingWindowRateLimiter(storage)

    async def take(self, account: str, limit: int, decisions: int) -> float | None:
        """None where the decisions were counted, else the seconds until they would be."""
        item = RateLimitItemPerMinute(limit)
        if await self._limiter.hit(item, account, cost=decisions):
            return None
        # There is room once the oldest of the newest `limit - decisions + 1` has left the window, and 1 ms later at
        # the latest.
        expiry = item.get_expiry()
        oldest, _ = await self._storage.get_moving_window(item.key_for(account), limit - decisions + 1, expiry)
        return max(0.0, oldest + expiry - time.time()) + 0.001


class _Memory(MemoryStorage):
    """`limits`' memory, in which a moving window begins at the oldest of the newest `limit` entries, as in Redis."""

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        now = time.time()
        times = [entry.atime for entry in self.events.get(key, ())[:limit] if entry.atime >= now - expiry]
        return (times[-1], len(times)) if times else (now, 0)
