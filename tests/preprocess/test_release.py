from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from preprocess.release import Release, ReleaseError
from tests.golden_cases import RELEASE

COMMIT = "17f0b0ad64efb65d273590632833508766b2aae6"


def test_random_weights_are_said() -> None:
    assert Release.read(RELEASE).random_weights


def test_a_single_file_is_known_by_its_header(tmp_path: Path) -> None:
    shutil.copy(RELEASE / "model.safetensors", tmp_path)
    data = (tmp_path / "model.safetensors").read_bytes()
    header = data[8 : 8 + int.from_bytes(data[:8], "little")]
    assert json.loads(header)
    release = Release.read(tmp_path)
    assert release.revision == hashlib.sha256(header).hexdigest()
    assert not release.random_weights


def test_shards_are_known_by_their_index(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\2" + bytes(7) + b"{}")
    (tmp_path / "model.safetensors.index.json").write_bytes(b'{"weight_map": {}}')
    assert Release.read(tmp_path).revision == hashlib.sha256(b'{"weight_map": {}}').hexdigest()


def test_a_recorded_revision_comes_first(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_bytes(b"{}")
    metadata = tmp_path / ".cache/huggingface/download/config.json.metadata"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"{COMMIT}\netag\n1790000000.0\n")
    assert Release.read(tmp_path).revision == COMMIT
    (tmp_path / ".revision").write_text("abc\n")
    assert Release.read(tmp_path).revision == "abc"
    (tmp_path / ".revision").write_text("\n")
    assert Release.read(tmp_path).revision == COMMIT


def test_the_date_is_that_of_the_weights_list(tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_bytes(b"{}")
    os.utime(index, (1_790_000_000, 1_790_000_000))
    assert Release.read(tmp_path).date == "2026-09-21"


def test_the_size_is_that_of_every_file_of_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_bytes(b"{}")
    (tmp_path / "elsewhere").write_bytes(bytes(1_000))
    # As huggingface_hub's cache has them.
    (tmp_path / "model-00001-of-00002.safetensors").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(bytes(200))
    (tmp_path / "joint_head.safetensors").write_bytes(bytes(30))
    (tmp_path / "tokenizer.json").write_bytes(bytes(4))
    assert Release.read(tmp_path).size_bytes == 1_230


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_weights_is_no_release(tmp_path: Path, exists: bool) -> None:
    with pytest.raises(ReleaseError, match="CLEF_RELEASE"):
        Release.read(tmp_path if exists else tmp_path / "missing")
