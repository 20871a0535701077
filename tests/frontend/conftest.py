"""The app over a fake Triton, its lifespan running."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from frontend.app import create_app
from tests.frontend.fakes import FakeEnsemble, FakeTriton
from tests.frontend.kserve_server import Kserve, serving
from tests.frontend.places import Place
from tests.frontend.processes import Frontend, connectable, frontend
from tests.frontend.running import client_of, until_ready


@pytest.fixture(scope="session", autouse=True)
def _places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the frontend keeps, and the keys that somebody has here, stay out of the tests."""
    folder: Path = tmp_path_factory.mktemp("frontend")
    places = {"SYSTEMONE_KEYS": f"{folder}/keys.json", "SYSTEMONE_USAGE_URL": f"sqlite:///{folder}/usage.sqlite3"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in places.items():
            patch.setitem(os.environ, name, value)
        yield


@pytest.fixture(scope="session")
def ensemble() -> FakeEnsemble:
    return FakeEnsemble()


@pytest.fixture
def triton(ensemble: FakeEnsemble) -> FakeTriton:
    return FakeTriton(ensemble)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def app(place: Place, triton: FakeTriton) -> FastAPI:
    return create_app(place.settings(), triton)


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as opened:
        await until_ready(opened)
        yield opened


@pytest.fixture
def kserve(ensemble: FakeEnsemble) -> Kserve:
    return Kserve(ensemble)


@pytest.fixture
async def running(kserve: Kserve, tmp_path: Path) -> AsyncIterator[Frontend]:
    async with (
        serving(kserve) as triton,
        frontend(tmp_path / "log", TRITON_URL=f"127.0.0.1:{triton}") as started,
        httpx.AsyncClient(base_url=started.url) as client,
    ):
        await connectable(client)
        await until_ready(client)
        yield started
