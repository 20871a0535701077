"""A tokenizer and a configuration that are not of one release are refused at start."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from launch.dev_release import write_dev_release
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings
from preprocess.tokenizer import TokenizerError
from tests.golden_cases import RELEASE


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return shutil.copytree(RELEASE, tmp_path / "release")


def edit(release: Path, **values: Any) -> None:
    config = json.loads((release / "config.json").read_text())
    (release / "config.json").write_text(json.dumps(config | values))


def refused(release: Path, words: str) -> None:
    with pytest.raises(TokenizerError, match=words):
        Preprocessor(Settings(release=release))


def test_the_golden_and_the_development_release_pass(tmp_path: Path) -> None:
    write_dev_release(tmp_path / "dev")
    for release in (RELEASE, tmp_path / "dev"):
        Preprocessor(Settings(release=release))


@pytest.mark.parametrize(("rows", "fits"), [(2009, True), (2008, False)])
def test_every_id_has_a_row(release: Path, rows: int, fits: bool) -> None:
    text = json.loads((release / "config.json").read_text())["text_config"]
    edit(release, text_config=text | {"vocab_size": rows})
    if fits:
        Preprocessor(Settings(release=release))
    else:
        refused(release, r"tokenizer\.json has ids up to 2008, and the model 2008 rows")


@pytest.mark.parametrize("name", ["image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"])
def test_media_tokens_have_one_id(release: Path, name: str) -> None:
    edit(release, **{name: 7})
    refused(release, rf"is 200\d in tokenizer\.json, and 7 in config\.json \({name}\)")


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"text_config": 5}'])
def test_a_configuration_that_says_nothing(release: Path, text: str | None) -> None:
    (release / "config.json").unlink()
    if text is not None:
        (release / "config.json").write_text(text)
    refused(release, r"config\.json")
