"""Work for a client that may leave before it is done."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

Result = TypeVar("Result")


async def unless_abandoned(request: Request, work: Awaitable[Result]) -> Result:
    """The work's result. Where the client of `request`, whose body was read, leaves first, the work is cancelled and
    ClientDisconnect raised.
    """
    task = asyncio.current_task()
    assert task is not None
    gone = False

    async def leave() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        task.cancel()

    leaving = asyncio.ensure_future(leave())
    try:
        return await work
    except asyncio.CancelledError:
        # The server's own cancellation, maybe beside ours, stays one.
        if gone and task.uncancel() == 0:
            raise ClientDisconnect from None
        raise
    finally:
        leaving.cancel()
