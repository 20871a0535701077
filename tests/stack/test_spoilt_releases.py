"""A release that is not whole is no start: the launcher ends with 1 and a sentence that says what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from tests.golden_cases import RELEASE
from tests.launch.launcher import launched

WEIGHTS = "model.safetensors"
WEIGHT = "model.language_model.layers.3.mlp.up_proj.weight"
CURE = "python -m launch download"


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1000])


def damage(file: Path) -> None:
    """As a disk does: the header and what follows are other bytes, and there are as many."""
    data = file.read_bytes()
    file.write_bytes(data[:8] + b"\xff" * 4096 + data[4104:])


def reshape(file: Path) -> None:
    weights = load_file(file)
    weights[WEIGHT] = weights[WEIGHT][:-1].contiguous()
    save_file(weights, file, metadata={"format": "pt"})


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("spoil", "sentences"),
    [
        (cut_short, [f"{WEIGHTS} is cut short or damaged", "download it again", CURE]),
        (damage, [f"{WEIGHTS} is cut short or damaged", "download it again", CURE]),
        (reshape, ["clef_model: ", WEIGHT]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_spoilt_release_is_no_start(tmp_path: Path, spoil: Callable[[Path], None], sentences: list[str]) -> None:
    release = tmp_path / "release"
    shutil.copytree(RELEASE, release, copy_function=shutil.copyfile)
    spoil(release / WEIGHTS)
    with launched("--release", str(release), OMP_NUM_THREADS="1") as launcher:
        status, said = launcher.finish()
    assert status == 1
    assert all(sentence in said for sentence in sentences), said
    assert "Traceback" not in said
