"""Where a key may not show, and settings that are no start."""

from __future__ import annotations

import logging

import httpx
import pytest

from frontend import keyfile
from frontend.app import create_app
from frontend.settings import Settings, SettingsError, read_settings
from tests.frontend.fakes import FakeTriton
from tests.frontend.places import SECRET, Place, ask
from tests.frontend.routes import ROUTES


async def test_the_document_says_where_a_key_goes(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert document["components"]["securitySchemes"] == {"key": {"type": "http", "scheme": "bearer"}}
    secured = {
        path for path, methods in document["paths"].items() for found in methods.values() if found.get("security")
    }
    template = "/client/v4/accounts/{account}/ai/run/@cf/cloudflare/{model}"
    assert secured == {template if path.startswith("/client/") else path for path in ROUTES}


async def test_no_key_is_in_the_log(place: Place, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    headers = place.add("alice")
    with caplog.at_level(logging.DEBUG):
        await ask(client, headers)
        await ask(client, {"authorization": f"Bearer {SECRET}"})
    said = "".join(str(record.__dict__) for record in caplog.records if not record.name.startswith("httpx"))
    assert "'key': 'alice'" in said
    for key in (headers["authorization"].removeprefix("Bearer "), SECRET):
        assert key not in said
        assert keyfile.hash_of(key) not in said


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ({"rate_storage": "http://redis"}, "SYSTEMONE_RATE_STORAGE"),
        ({"usage_url": "mysql://h/d"}, "SYSTEMONE_USAGE_URL"),
    ],
)
def test_a_wrong_setting_is_no_start(triton: FakeTriton, settings: dict[str, str], variable: str) -> None:
    with pytest.raises(SettingsError, match=variable):
        create_app(Settings(**settings), triton)  # type: ignore[arg-type]


def test_settings_are_read_from_the_environment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "SYSTEMONE_KEYS": str(place.keys),
        "SYSTEMONE_RATE_STORAGE": "redis://redis:6379",
        "SYSTEMONE_RATE_TIMEOUT_MS": "70",
        "SYSTEMONE_USAGE_URL": "postgresql://clef@db/clef",
    }.items():
        monkeypatch.setenv(name, value)
    settings = read_settings()
    assert (settings.keys, settings.rate_storage) == (place.keys, "redis://redis:6379")
    assert (settings.rate_timeout_ms, settings.usage_url) == (70, "postgresql://clef@db/clef")


def test_a_broken_key_file_is_no_start(place: Place, triton: FakeTriton) -> None:
    place.keys.write_text('{"tiers": {}, "keys": [{}]}')
    with pytest.raises(SettingsError, match="SYSTEMONE_KEYS"):
        create_app(place.settings(), triton)
