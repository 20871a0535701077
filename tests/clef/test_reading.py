"""A tokenizer file that transformers would read otherwise is refused when the model is loaded."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from clef.errors import ReleaseError
from clef.model import ClefModel
from clef.reading import check_reading
from clef.settings import ModelSettings
from tests.golden_cases import RELEASE


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return shutil.copytree(RELEASE, tmp_path / "release")


def edit(release: Path, **values: Any) -> None:
    file = release / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | values), "utf-8")


def test_the_golden_release_reads_alike(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check_reading(RELEASE)
    assert not caplog.records


SPLIT_AT_SPACES = {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Isolated", "invert": False}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


@pytest.mark.parametrize(
    "values",
    [
        {"normalizer": None},
        {"normalizer": {"type": "NFD"}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [SPLIT_AT_SPACES, BYTES]}},
    ],
)
def test_a_file_that_transformers_reads_otherwise(release: Path, values: dict[str, Any]) -> None:
    edit(release, **values)
    with pytest.raises(ReleaseError, match=r"tokenizer\.json reads .* otherwise than transformers'"):
        ClefModel.load(ModelSettings(release=release), "cpu")


def test_a_file_that_is_none(release: Path) -> None:
    (release / "tokenizer.json").write_text("{}")
    with pytest.raises(ReleaseError, match=r"tokenizer\.json is not readable"):
        ClefModel.load(ModelSettings(release=release), "cpu")


def test_where_transformers_has_no_tokenizer_that_is_said(release: Path, caplog: pytest.LogCaptureFixture) -> None:
    (release / "tokenizer_config.json").write_text("[")
    with caplog.at_level(logging.WARNING):
        check_reading(release)
    assert "were not compared" in caplog.text
