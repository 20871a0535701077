from __future__ import annotations

from collections.abc import Iterator

import pytest

from clef.model import ClefModel
from clef.settings import ModelSettings
from tests.clef.desk import PATIENCE_S, Desk, Gate
from tests.clef.made_records import made
from tests.golden_cases import RELEASE


@pytest.fixture
def settings() -> ModelSettings:
    return ModelSettings(release=RELEASE)


@pytest.fixture(scope="session")
def model() -> ClefModel:
    return ClefModel.load(ModelSettings(release=RELEASE, device="cpu"), "cpu")


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def desk(gate: Gate, settings: ModelSettings) -> Iterator[Desk]:
    """Its model is busy with a first record of one token until the gate opens; at the end each job has one answer."""
    desk = Desk(gate, settings)
    desk.ask(made(1, [1]))
    assert gate.entered.wait(PATIENCE_S)
    yield desk
    gate.opened.set()
    desk.close()
