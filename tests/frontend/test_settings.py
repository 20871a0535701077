from __future__ import annotations

import pytest
from pydantic import ValidationError

from frontend.settings import Settings, SettingsError, fingerprint, read_settings


def test_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "FRONTEND_HOST": "0.0.0.0",
        "FRONTEND_PORT": "9000",
        "TRITON_URL": "triton.internal:8001",
        "SYSTEMONE_REQUEST_TIMEOUT_MS": "1500",
        "SYSTEMONE_MAX_IN_FLIGHT": "7",
    }.items():
        monkeypatch.setenv(name, value)
    settings = read_settings()
    assert (settings.host, settings.port, settings.triton_url) == ("0.0.0.0", 9000, "triton.internal:8001")
    assert (settings.request_timeout_ms, settings.max_in_flight) == (1500, 7)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FRONTEND_PORT", "eighty"),
        ("FRONTEND_PORT", "65536"),
        ("TRITON_URL", "http://127.0.0.1:8001"),
        ("TRITON_URL", "127.0.0.1"),
        ("SYSTEMONE_REQUEST_TIMEOUT_MS", "0"),
        ("SYSTEMONE_HEALTH_INTERVAL_MS", "soon"),
    ],
)
def test_an_error_names_the_variable(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=name):
        read_settings()


def test_is_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().port = 1  # type: ignore[misc]


def test_the_fingerprint_is_of_what_replicas_share() -> None:
    base = fingerprint(Settings().public())
    assert fingerprint(Settings(host="0.0.0.0", port=1, triton_url="other:1").public()) == base
    places = {
        "keys": "elsewhere.json",
        "rate_storage": "redis://:secret@redis",
        "usage_url": "postgresql://x:secret@db/x",
    }
    assert fingerprint(Settings.model_validate(places).public()) == base
    assert "secret" not in str(Settings.model_validate(places).public())
    assert fingerprint(Settings(request_timeout_ms=1).public()) != base
    assert fingerprint({"b": 1, "a": 2}) == fingerprint({"a": 2, "b": 1})
