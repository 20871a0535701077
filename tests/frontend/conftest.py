"""The app over a fake Triton, its lifespan running."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from frontend.app import create_app
from frontend.settings import Settings
from tests.frontend.fakes import FakeEnsemble, FakeTriton
from tests.frontend.running import client_of, until_ready


@pytest.fixture(scope="session")
def ensemble() -> FakeEnsemble:
    return FakeEnsemble()


@pytest.fixture
def triton(ensemble: FakeEnsemble) -> FakeTriton:
    return FakeTriton(ensemble)


@pytest.fixture
def app(triton: FakeTriton) -> FastAPI:
    return create_app(Settings(), triton)


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as opened:
        await until_ready(opened)
        yield opened
