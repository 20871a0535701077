from __future__ import annotations

import os

import pytest

from clef.model import ClefModel
from clef.settings import ModelSettings
from tests.golden_cases import RELEASE


@pytest.fixture(autouse=True)
def only_the_tests_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings come from a test alone, whatever the environment of whoever runs it."""
    for name in os.environ:
        if name.startswith("CLEF_"):
            monkeypatch.delenv(name)


@pytest.fixture
def settings() -> ModelSettings:
    return ModelSettings(release=RELEASE)


@pytest.fixture(scope="session")
def model() -> ClefModel:
    return ClefModel.load(ModelSettings(release=RELEASE, device="cpu"), "cpu")
