"""The publisher's `systemone()` as one would serve it: behind FastAPI, one request at a time.

`python -m perf.publisher_server PORT RELEASE THREADS`. Its model is put together as `launch.release_code` says.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, Request

from launch.release_code import Processor, load_model
from perf.client import ROUTE
from perf.publisher import publisher


def create_app(model: Any, processor: Processor) -> FastAPI:
    app = FastAPI()
    one_at_a_time = asyncio.Lock()

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {}

    @app.post(ROUTE)
    async def systemone(request: Request) -> Any:
        body = {"model": "clef", **await request.json()}
        async with one_at_a_time:
            return await asyncio.to_thread(publisher().systemone, model, processor, body)

    return app


def main() -> None:
    port, release, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    app = create_app(*load_model(publisher(), Path(release), "cpu", "float32"))
    uvicorn.run(app, host="127.0.0.1", port=int(port), loop="uvloop", http="httptools", log_level="warning")


if __name__ == "__main__":
    main()
