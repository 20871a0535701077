"""Where a frontend keeps its keys and its usage log, and a client of one that runs there."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from frontend import keyfile
from frontend.app import create_app
from frontend.keyfile import SHIPPED_TIERS, KeyFile
from frontend.settings import Settings
from frontend.tiers import Tier
from tests.frontend.fakes import FakeTriton
from tests.frontend.running import NOUL, client_of, until_ready

SECRET = "canary5520"
TIERS = {"gold": Tier(), "slow": Tier(decisions_per_minute=2), **SHIPPED_TIERS}


class Place:
    """Where one frontend keeps its keys and its log."""

    def __init__(self, folder: Path) -> None:
        self.keys = folder / "keys.json"
        self.usage = folder / "usage.sqlite3"

    def add(self, name: str, tier: str = "gold", tiers: dict[str, Tier] | None = None) -> dict[str, str]:
        """A new key, as headers."""
        content = keyfile.read(self.keys) if self.keys.exists() else KeyFile(tiers=tiers or TIERS)
        content, key = content.with_new_key(name, tier)
        keyfile.write(self.keys, content)
        return {"authorization": f"Bearer {key}"}

    def settings(self, **settings: Any) -> Settings:
        return Settings(keys=self.keys, usage_url=f"sqlite:///{self.usage}", **settings)

    def rows(self) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.usage)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute('SELECT * FROM "usage" ORDER BY time')]


@asynccontextmanager
async def opened(settings: Settings, triton: FakeTriton) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(create_app(settings, triton)) as client:
        await until_ready(client)
        yield client


async def ask(client: httpx.AsyncClient, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
    return await client.post("/v1/systemone", json={**NOUL, **fields}, headers=headers)


def questions(number: int) -> dict[str, Any]:
    return {f"q{index}": {"type": "noul"} for index in range(number)}


async def sample(client: httpx.AsyncClient, name: str, **labels: str) -> float | None:
    families = text_string_to_metric_families((await client.get("/metrics")).text)
    samples = [sample for family in families for sample in family.samples]
    return next((item.value for item in samples if item.name == name and item.labels == labels), None)
