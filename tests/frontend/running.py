"""Helpers: the app with its lifespan, waiting for it, and holding its answers to its own document."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI
from jsonschema import Draft202012Validator

NOUL = {"state": "All is well.", "questions": {"q": {"type": "noul", "instructions": "Is a service down?"}}}


@asynccontextmanager
async def client_of(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the app in this process, with the app's lifespan around it."""
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://frontend") as client,
    ):
        yield client


async def until_ready(client: httpx.AsyncClient, ready: bool = True, within_s: float = 10.0) -> float:
    """Seconds until /health said so."""
    began = time.monotonic()
    while time.monotonic() - began < within_s:
        if (await client.get("/health")).status_code == (200 if ready else 503):
            return time.monotonic() - began
        await asyncio.sleep(0.01)
    raise AssertionError(f"/health did not say ready={ready} within {within_s} s")


def body_of(size: int, **fields: Any) -> bytes:
    """A valid request of exactly `size` bytes; a field that nobody reads fills it up."""
    request = json.dumps({**NOUL, **fields, "padding": ""}).encode()
    return request[:-2] + b"x" * (size - len(request)) + request[-2:]


def assert_documented(app: FastAPI, response: httpx.Response, path: str | None = None) -> None:
    """The response is one that /openapi.json promises for this route, method and status."""
    document = app.openapi()
    operation = document["paths"][path or response.request.url.path][response.request.method.lower()]
    promised = operation["responses"][str(response.status_code)]
    media_type = response.headers["content-type"].partition(";")[0]
    schema = {**promised["content"][media_type]["schema"], "components": document["components"]}
    Draft202012Validator(schema).validate(response.json())
