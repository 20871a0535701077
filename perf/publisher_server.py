"""The publisher's `systemone()` as one would serve it: behind FastAPI, one request at a time.

`python -m perf.publisher_server PORT RELEASE THREADS`. Its model is put together as `launch.release_code` says, and
loaded in the thread that computes: in any other it would leave a second OpenMP team behind, and be three times as slow.
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, Request

from launch.release_code import Processor, load_model
from perf.client import ROUTE
from perf.publisher import publisher


def create_app(model: Any, processor: Processor, one_at_a_time: Executor) -> FastAPI:
    app = FastAPI()

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {}

    @app.post(ROUTE)
    async def systemone(request: Request) -> Any:
        body = {"model": "clef", **await request.json()}
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(one_at_a_time, publisher().systemone, model, processor, body)

    return app


def main() -> None:
    port, release, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    one = ThreadPoolExecutor(1)
    app = create_app(*one.submit(load_model, publisher(), Path(release), "cpu", "float32").result(), one)
    uvicorn.run(app, host="127.0.0.1", port=int(port), loop="uvloop", http="httptools", log_level="warning")


if __name__ == "__main__":
    main()
