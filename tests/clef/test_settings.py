from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from clef.settings import SettingsError, read_settings


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "CLEF_RELEASE": "/models/clef-flash",
        "CLEF_DTYPE": "bfloat16",
        "CLEF_BATCH_TOKENS": "4096",
        "CLEF_ALLOW_SLOW_KERNELS": "1",
        "CLEF_OF_ANOTHER_STEP": "x",
    }.items():
        monkeypatch.setenv(name, value)
    settings = read_settings()
    assert settings.release == Path("/models/clef-flash") and settings.dtype == "bfloat16"
    assert settings.batch_tokens == 4096 and settings.allow_slow_kernels
    assert settings.device == "auto" and settings.warmup


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        read_settings(release="/models/clef-flash").dtype = "float32"


def test_an_error_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="CLEF_RELEASE"):
        read_settings()
    monkeypatch.setenv("CLEF_BATCH_TOKENS", "0")
    with pytest.raises(SettingsError, match="CLEF_BATCH_TOKENS"):
        read_settings(release="/models/clef-flash")


@pytest.mark.parametrize("told", ["100", "63", "-64"])
def test_graphs_end_where_one_is_captured(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    monkeypatch.setenv("CLEF_GRAPH_TOKENS", told)
    with pytest.raises(SettingsError, match="CLEF_GRAPH_TOKENS"):
        read_settings(release="/models/clef-flash")
    monkeypatch.setenv("CLEF_GRAPH_TOKENS", "128")
    assert read_settings(release="/models/clef-flash").graph_tokens == 128
