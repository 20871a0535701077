"""The publisher's `systemone()` as one would serve it: behind FastAPI, one request at a time.

`python -m perf.publisher_server PORT RELEASE THREADS`. Its model is put together from its own classes, with
transformers' trunk and tokenizer of the release; its loader alone is left out, since that needs torchvision.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, Request

from perf.client import ROUTE
from perf.publisher import publisher


@dataclass(frozen=True)
class Processor:
    """What `systemone()` needs of a processor where there are no media."""

    tokenizer: Any


def load(release: Path) -> tuple[Any, Processor]:
    """Its model in fp32, and a processor for text."""
    from safetensors.torch import load_file
    from transformers import AutoTokenizer, Qwen3_5ForConditionalGeneration

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = AutoTokenizer.from_pretrained(release)
        trunk = Qwen3_5ForConditionalGeneration.from_pretrained(release, dtype=torch.float32)
    head = publisher().JointSchemaHead(**json.loads((release / "joint_head_config.json").read_text()))
    head.load_state_dict(load_file(release / "joint_head.safetensors"), strict=True)
    return publisher().ClefModel(trunk, head.float()).eval(), Processor(tokenizer)


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
    app = create_app(*load(Path(release)))
    uvicorn.run(app, host="127.0.0.1", port=int(port), loop="uvloop", http="httptools", log_level="warning")


if __name__ == "__main__":
    main()
