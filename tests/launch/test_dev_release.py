import hashlib
import json
import math
import unicodedata
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

from clef.batch import split_records
from clef.head_weights import head_shapes
from clef.model import ClefModel
from clef.release import HeadConfig, open_release
from clef.settings import ModelSettings
from launch.dev_config import SIZES, joint_head_config, model_config
from launch.dev_release import MARKER, write_dev_release
from launch.dev_tokenizer import ADDED_TOKENS, SPECIAL_TOKENS, train_tokenizer
from launch.errors import LaunchError
from launch.example import BODY
from launch.published import PUBLISHED
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings
from tests.golden_cases import RELEASE as GOLDEN


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dev") / "release"
    assert write_dev_release(folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(release: Path) -> Tokenizer:
    return Tokenizer.from_file(str(release / "tokenizer.json"))


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_it_has_the_files_of_a_release_is_small_and_says_what_it_is(release: Path) -> None:
    assert sorted(digests(release)) == sorted(path.name for path in GOLDEN.iterdir())
    assert sum(path.stat().st_size for path in release.iterdir()) < 10_000_000
    assert "Its answers mean nothing" in (release / MARKER).read_text()
    open_release(release)


def test_one_seed_gives_the_same_bytes_another_gives_others(release: Path, tmp_path: Path) -> None:
    assert write_dev_release(tmp_path / "again")
    assert digests(tmp_path / "again") == digests(release)
    assert write_dev_release(tmp_path / "again", seed=1)
    changed = {name for name, digest in digests(tmp_path / "again").items() if digest != digests(release)[name]}
    assert changed == {"model.safetensors", "joint_head.safetensors", MARKER}


def test_a_release_that_is_there_is_kept_and_one_of_older_code_replaced(release: Path, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    assert write_dev_release(folder)
    written = (folder / "config.json").stat().st_mtime_ns
    assert not write_dev_release(folder)
    assert (folder / "config.json").stat().st_mtime_ns == written
    (folder / MARKER).write_text("of older code")
    (folder / "config.json").unlink()
    assert write_dev_release(folder)
    assert digests(folder) == digests(release)
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("irreplaceable")
    with pytest.raises(LaunchError, match="choose another folder"):
        write_dev_release(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", ["model.safetensors", "joint_head.safetensors"])
def test_tensors_are_named_as_in_a_release_in_bf16_and_finite(release: Path, name: str) -> None:
    with safe_open(GOLDEN / name, "pt") as golden:
        names = set(golden.keys())
    tensors = load_file(release / name)
    assert set(tensors) == names
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    assert all(bool(tensor.isfinite().all()) for tensor in tensors.values())


def test_no_two_tensors_of_one_shape_are_equal(release: Path) -> None:
    seen: set[bytes] = set()
    for tensor in load_file(release / "model.safetensors").values():
        content = tensor.view(torch.uint8).numpy().tobytes()
        assert content not in seen
        seen.add(content)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Is a service down?",
        "Übergröße 12345 → ⚠️👩‍👩‍👧",
        "日本語と한국어 العربية हिन्दी",
        "\t\r\n  x  \x00\x7f",
        "a\u0301",
    ],
)
def test_text_comes_back_in_nfc(tokenizer: Tokenizer, text: str) -> None:
    encoded = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(encoded.ids, skip_special_tokens=False) == unicodedata.normalize("NFC", text)


def test_it_splits_as_qwen_does(tokenizer: Tokenizer) -> None:
    def pieces(text: str) -> list[str]:
        assert tokenizer.pre_tokenizer is not None
        return [text[start:end] for _, (start, end) in tokenizer.pre_tokenizer.pre_tokenize_str(text)]

    assert pieces("order 2025") == ["order", " ", "2", "0", "2", "5"]
    assert pieces("हिन्दी नमस्ते") == ["हिन्दी", " नमस्ते"]
    assert pieces("it's a\n\n b") == ["it", "'s", " a", "\n\n", " b"]
    assert tokenizer.encode("é").ids == tokenizer.encode("e\u0301").ids


def test_special_and_plain_added_tokens(tokenizer: Tokenizer) -> None:
    added = tokenizer.get_added_tokens_decoder()
    assert [token.content for token in added.values() if token.special] == list(SPECIAL_TOKENS)
    assert [token.content for token in added.values() if not token.special] == list(ADDED_TOKENS)
    assert len(tokenizer.encode("<think>")) == 1


def test_the_tokenizer_is_in_line_with_config_and_embedding(release: Path, tokenizer: Tokenizer) -> None:
    config = json.loads((release / "config.json").read_text())
    assert config["image_token_id"] == tokenizer.token_to_id("<|image_pad|>")
    assert 1_500 < tokenizer.get_vocab_size() <= config["text_config"]["vocab_size"]
    assert train_tokenizer().to_str() == tokenizer.to_str()


def test_every_part_of_a_request_moves_the_scores(release: Path) -> None:
    encode = Preprocessor(Settings(release=release))
    model = ClefModel.load(ModelSettings(release=release), "cpu")

    def scores(state: str) -> np.ndarray:
        body = json.dumps(json.loads(BODY) | {"state": state}).encode()
        return model.score(split_records(encode(body, None, {})))[0]

    plain = scores("It began well. " + "Nothing happened. " * 20)
    assert len(plain) == 8
    assert np.isfinite(plain).all()
    assert np.ptp(plain) < 20
    # The first words count, far from the end as they are: layers that forget at once would hide a lost state.
    assert np.abs(plain - scores("It began badly. " + "Nothing happened. " * 20)).max() > 1e-4
    assert len({round(float(score), 4) for score in plain}) == 8


def test_the_size_for_a_gpu_has_layers_and_head_of_clef_flash(tokenizer: Tokenizer) -> None:
    size, published = SIZES["flash"], PUBLISHED["clef-flash"]
    config = model_config(size, tokenizer.get_vocab())
    assert config["text_config"].items() >= asdict(published.text).items()
    with torch.device("meta"):
        model = Qwen3_5ForConditionalGeneration(Qwen3_5Config.from_dict(config))
    layers = sum(weight.numel() for weight in model.model.language_model.layers.parameters())
    assert f"{layers / 1e9:.2f}" == "6.92"  # as docs/gpu.md counts them
    shapes = head_shapes(HeadConfig(**joint_head_config(size)))
    assert f"{sum(math.prod(shape) for shape in shapes.values()) / 1e6:.1f}" == f"{published.head_parameters / 1e6:.1f}"
