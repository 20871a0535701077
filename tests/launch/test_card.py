"""What fits on a card follows from the published shapes, and the README shows what the code computes."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from clef.head_weights import head_shapes
from clef.release import HeadConfig
from launch.card import GB, TOKENS, chosen, fit, settings, states, table, working_bytes
from launch.published import PUBLISHED
from launch.triton import REPOSITORY_ROOT

FLASH, CLEF = PUBLISHED["clef-flash"], PUBLISHED["clef"]


@pytest.mark.parametrize("shape", PUBLISHED.values(), ids=PUBLISHED)
def test_the_heads_parameters_are_those_of_its_weights(shape):
    config = HeadConfig(
        shape.text.hidden_size, shape.head_width, routing_layers=2, layers=4, heads=16, feedforward=4096
    )
    assert sum(map(math.prod, head_shapes(config).values())) == pytest.approx(shape.head_parameters, rel=1e-3)


def test_the_largest_layer_is_counted_by_hand():
    stream = 2 * 4096
    projected, kernel = 4096 + 2 * 8192, 2 * 2048 + 4 * 4096 + 32 * 128 * 128 // 64
    assert working_bytes(FLASH.text) == 2 * (stream + projected + kernel + 32 * 64) + 4 * 32 * 64


def test_a_card_is_divided_without_rest():
    for tokens in TOKENS:
        found = fit(CLEF, 80 * GB, tokens)
        assert 80 * GB - found.left == pytest.approx(0.75e9 + CLEF.weights_bytes + 1.5 * tokens * 174_080)
        assert (
            found.states * CLEF.footprint.prefix(4000) <= found.left < (found.states + 1) * CLEF.footprint.prefix(4000)
        )


def test_the_settings_leave_room_for_one_state_as_long_as_they_allow():
    found = chosen(FLASH, 24 * GB)
    assert found is not None and found.tokens == 8192
    assert fit(FLASH, 24 * GB, 16_384).left < FLASH.footprint.prefix(16_384)
    assert settings(FLASH, 24) == "CLEF_MAX_LENGTH=8192 CLEF_BATCH_TOKENS=4096 CLEF_STATE_CACHE_BYTES=2147483648"
    assert settings(CLEF, 24) is None


def test_the_readme_shows_what_is_computed():
    readme = Path(REPOSITORY_ROOT, "README.md").read_text()
    command = settings(FLASH, 24)
    assert table(24) in readme and states() in readme
    assert command is not None and command in readme.replace(" \\\n  ", " ")


def test_the_command_prints_the_table_and_the_settings():
    command = [sys.executable, "-m", "launch", "card", "24"]
    said = subprocess.run(command, cwd=REPOSITORY_ROOT, capture_output=True, text=True, check=True).stdout
    assert said == f"{table(24)}\n\n{states()}\n\nclef-flash: {settings(FLASH, 24)}\nclef: does not fit\n"
