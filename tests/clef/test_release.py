"""A release that is not exactly right is refused in a sentence that names what is wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from clef.errors import ReleaseError
from clef.inspection import Inspected, inspect
from clef.model import ClefModel
from clef.release import open_release
from clef.settings import ModelSettings
from tests.golden_cases import RELEASE

HEAD, TRUNK, INDEX = "joint_head.safetensors", "model.safetensors", "model.safetensors.index.json"
TRUNK_WEIGHT = "model.language_model.layers.3.mlp.up_proj.weight"
HEAD_WEIGHT = "layers.2.linear1.weight"
Weights = dict[str, Tensor]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A copy that may be spoilt."""
    shutil.copytree(RELEASE, tmp_path / "release", copy_function=shutil.copyfile)
    return tmp_path / "release"


def load(release: Path) -> ClefModel:
    return ClefModel.load(ModelSettings(release=release), "cpu")


def look(release: Path) -> Inspected:
    return inspect(open_release(release))


def refused(release: Path, *words: str, ways: Sequence[Callable[[Path], object]] = (load, look)) -> None:
    """Loading it is refused, and so is looking at it without loading."""
    for way in ways:
        with pytest.raises(ReleaseError) as error:
            way(release)
        assert all(word in str(error.value) for word in words), str(error.value)


def rewrite(file: Path, change: Callable[[Weights], Any]) -> None:
    weights = load_file(file)
    change(weights)
    save_file(weights, file, metadata={"format": "pt"})


def edit(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def shard(release: Path) -> dict[str, str]:
    """Cut the trunk into two shards with an index, as real releases are; returns the map of names."""
    weights = load_file(release / TRUNK)
    (release / TRUNK).unlink()
    names = sorted(weights)
    places = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({name: weights[name] for name in part}, release / file, metadata={"format": "pt"})
        places |= dict.fromkeys(part, file)
    (release / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return places


@pytest.mark.parametrize(("file", "weight"), [(TRUNK, TRUNK_WEIGHT), (HEAD, HEAD_WEIGHT)])
class TestWeights:
    def test_missing(self, release: Path, file: str, weight: str) -> None:
        rewrite(release / file, lambda weights: weights.pop(weight))
        refused(release, "missing", weight)

    def test_left_over(self, release: Path, file: str, weight: str) -> None:
        rewrite(release / file, lambda weights: weights.update({f"{weight}_too": torch.zeros(2)}))
        refused(release, "unexpected", f"{weight}_too")

    def test_wrongly_shaped(self, release: Path, file: str, weight: str) -> None:
        rewrite(release / file, lambda weights: weights.update({weight: weights[weight][:-1].contiguous()}))
        refused(release, weight)

    def test_cut_short(self, release: Path, file: str, weight: str) -> None:
        data = (release / file).read_bytes()
        (release / file).write_bytes(data[: len(data) // 2])
        refused(release, file, "cut short or damaged", "download it again")

    def test_header_damaged(self, release: Path, file: str, weight: str) -> None:
        data = (release / file).read_bytes()
        (release / file).write_bytes(data[:8] + b"?" * 64 + data[72:])
        refused(release, file, "cut short or damaged")

    def test_absent(self, release: Path, file: str, weight: str) -> None:
        (release / file).unlink()
        refused(release, file, "missing from the release")


def test_weights_that_are_no_numbers_are_found_by_the_warm_up(release: Path) -> None:
    data = bytearray((release / TRUNK).read_bytes())
    data[len(data) // 2 : len(data) // 2 + 65536] = b"\xff" * 65536
    (release / TRUNK).write_bytes(data)
    with pytest.raises(ReleaseError, match="not finite: the weights are damaged"):
        load(release).warm_up()


def test_the_lm_head_is_needed_too(release: Path) -> None:
    rewrite(release / TRUNK, lambda weights: weights.pop("lm_head.weight"))
    refused(release, "missing", "lm_head.weight")


def test_multi_token_prediction_weights_are_no_fault(release: Path) -> None:
    rewrite(release / TRUNK, lambda weights: weights.update({"mtp.fc.weight": torch.zeros(2, 2)}))
    load(release)
    assert look(release) == look(RELEASE)


def test_shards_load_like_one_file(release: Path) -> None:
    shard(release)
    trunk = load(release)._trunk
    assert torch.equal(trunk.vocabulary, load_file(RELEASE / TRUNK)["lm_head.weight"].float())
    assert look(release) == look(RELEASE)


def test_what_is_counted_without_loading_is_what_is_loaded() -> None:
    trunk = load(RELEASE)._trunk
    found = look(RELEASE)
    assert found.trunk == sum(weight.numel() for weight in trunk.model.parameters()) + trunk.vocabulary.numel()
    assert found.head == sum(weight.numel() for weight in load_file(RELEASE / HEAD).values())
    assert found.bytes(2) == 2 * found.trunk + 4 * found.head


def test_a_configuration_that_transformers_cannot_take_is_seen_without_loading(release: Path) -> None:
    edit(release / "config.json", vision_config=5)
    refused(release, "config.json makes no sense", ways=[look])


def test_a_shard_is_missing(release: Path) -> None:
    shard(release)
    (release / "model-00002-of-00002.safetensors").unlink()
    refused(release, "model-00002-of-00002.safetensors is missing")


def test_a_shard_is_cut_short(release: Path) -> None:
    shard(release)
    file = release / "model-00001-of-00002.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    refused(release, file.name, "download it again")


def test_shard_and_index_disagree(release: Path) -> None:
    places = shard(release)
    places["model.extra"] = places.pop(TRUNK_WEIGHT)
    (release / INDEX).write_text(json.dumps({"weight_map": places}))
    refused(release, "disagree", "model.extra", TRUNK_WEIGHT)


@pytest.mark.parametrize("text", ["{}", '{"weight_map": {}}', "[]", "{"])
def test_an_index_without_a_map(release: Path, text: str) -> None:
    (release / INDEX).write_text(text)
    refused(release, INDEX)


@pytest.mark.parametrize("file", ["config.json", "joint_head_config.json"])
@pytest.mark.parametrize("text", [None, "", "{", "[]", "null", "\udcff"])
def test_a_configuration_that_cannot_be_read(release: Path, file: str, text: str | None) -> None:
    (release / file).unlink()
    if text is not None:
        (release / file).write_bytes(text.encode(errors="surrogateescape"))
    refused(release, file)


@pytest.mark.parametrize("architectures", [None, [], ["Qwen3ForCausalLM"], "Qwen3_5ForConditionalGeneration"])
def test_another_architecture(release: Path, architectures: Any) -> None:
    edit(release / "config.json", architectures=architectures)
    refused(release, "config.json", "Qwen3_5ForConditionalGeneration")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model_type": "llama"}, "model_type must be 'qwen3_5'"),
        ({"image_token_id": 2048}, "image_token_id 2048 is not in the vocabulary"),
        ({"video_token_id": -1}, "video_token_id -1 is not in the vocabulary"),
        ({"dtype": "float33"}, "the trunk cannot be loaded"),
        ({"vision_config": 5}, "the trunk cannot be loaded"),
    ],
)
def test_a_configuration_that_makes_no_sense(release: Path, values: dict[str, Any], words: str) -> None:
    edit(release / "config.json", **values)
    refused(release, words, ways=[load])


def test_the_head_was_made_for_another_trunk(release: Path) -> None:
    edit(release / "joint_head_config.json", hidden_size=128)
    refused(release, "hidden_size is 128, but config.json says 64")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"width": 0}, "width must be a positive integer"),
        ({"layers": 4.0}, "layers must be a positive integer"),
        ({"layers": True}, "layers must be a positive integer"),
        ({"heads": 5}, "width 64 is not a multiple of heads 5"),
        ({"colour": 1}, "colour"),
        ({"width": 32}, "memory_projection.weight is [64, 64], not [32, 64]"),
        ({"layers": 5}, "missing layers.4."),
        ({"layers": 3}, "unexpected layers.3."),
    ],
)
def test_a_head_configuration_that_does_not_fit(release: Path, values: dict[str, Any], words: str) -> None:
    edit(release / "joint_head_config.json", **values)
    refused(release, words)


def test_dropout_may_be_named(release: Path) -> None:
    edit(release / "joint_head_config.json", dropout=0.0)
    load(release)


def test_many_names_are_counted_not_listed(release: Path) -> None:
    rewrite(release / TRUNK, lambda weights: [weights.pop(name) for name in list(weights) if "layers.3." in name])
    for way in (load, look):
        with pytest.raises(ReleaseError, match="and 3 more") as error:
            way(release)
        assert len(str(error.value)) < 1000


def test_no_directory(tmp_path: Path) -> None:
    refused(tmp_path / "nothing", "is not a directory")


def test_weights_that_are_not_numbers_do_not_pass_the_warm_up(release: Path) -> None:
    rewrite(release / TRUNK, lambda weights: weights[TRUNK_WEIGHT].fill_(torch.nan))
    loaded = load(release)
    with pytest.raises(ReleaseError, match="not finite"):
        loaded.warm_up()
