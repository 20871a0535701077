from __future__ import annotations

import pytest

from preprocess.encoder import Encoder
from preprocess.settings import Settings, SpecialTokens
from preprocess.tokenizer import Tokenizer, Vocabulary
from tests.golden_cases import RELEASE


@pytest.fixture
def settings() -> Settings:
    return Settings(release=RELEASE)


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return Vocabulary.load(RELEASE)


@pytest.fixture(scope="session")
def encoders(vocabulary: Vocabulary) -> dict[SpecialTokens, Encoder]:
    return {mode: Encoder(Tokenizer(vocabulary, mode), 64) for mode in ("literal", "reference")}
