from __future__ import annotations

import os

import pytest

from preprocess.encoder import Encoder
from preprocess.settings import Settings, SpecialTokens
from preprocess.tokenizer import Tokenizer, Vocabulary
from tests.golden_cases import RELEASE


@pytest.fixture(autouse=True)
def only_the_tests_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings come from a test alone, whatever the environment of whoever runs it."""

    for name in os.environ:
        if name.startswith("CLEF_"):
            monkeypatch.delenv(name)


@pytest.fixture
def settings() -> Settings:
    return Settings(release=RELEASE)


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return Vocabulary.load(RELEASE)


@pytest.fixture(scope="session")
def encoders(vocabulary: Vocabulary) -> dict[SpecialTokens, Encoder]:
    return {mode: Encoder(Tokenizer(vocabulary, mode), 64) for mode in ("literal", "reference")}
