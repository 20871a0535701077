"""Work for a client that may leave before it is done."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

Result = TypeVar("Result")


async def unless_abandoned(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The work's result. Where the client of `request`, whose body was read, leaves first, the work is cancelled and
    ClientDisconnect raised.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        leaving.cancel()
        working.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
