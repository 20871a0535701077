"""Patches against transformers' Pillow image processor and the golden hashes, and the rules of a release."""

from __future__ import annotations

import hashlib
import json
import random
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from preprocess.errors import ValidationFailed
from preprocess.image_references import decode_reference
from preprocess.images import ImageRules, ProcessorError
from preprocess.settings import Settings
from tests.golden_cases import CASES, RELEASE
from tests.preprocess.pictures import file_of, noise, rotated
from tests.preprocess.prepared import RULES, Array, prepared


@pytest.fixture(scope="module")
def processor() -> Any:
    """transformers' Pillow variant, with the release's own configuration."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    return Qwen2VLImageProcessorPil.from_pretrained(RELEASE)


def two_frames(patches: Array) -> Array:
    """[P, 1536]: the frame repeated for the temporal pair, as the model step does it."""
    return np.repeat(patches.reshape(-1, 3, 1, 256), 2, axis=2).reshape(-1, 1_536)


def theirs(processor: Any, *images: Image.Image) -> tuple[Array, Array]:
    made = processor(images=list(images), return_tensors="np")
    return np.rint(made["pixel_values"] * 127.5 + 127.5).astype(np.uint8), made["image_grid_thw"]


GOLDEN = [name for name, case in CASES.items() if "images" in case["request"]]


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(settings: Settings, processor: Any, name: str) -> None:
    case, reference = CASES[name]["request"], CASES[name]["reference"]
    files = [decode_reference(image, index, settings) for index, image in enumerate(case["images"])]
    patches, grids = prepared(settings, *files)
    assert grids.tolist() == reference["image_grid_thw"]
    if name == "image-resized":  # by torchvision there: the Pillow variant stands for it here
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, _ = theirs(processor, Image.open(BytesIO(files[0])).convert("RGB"))
        assert (two_frames(patches) == expected).all()
    else:
        assert hashlib.sha256(two_frames(patches).tobytes()).hexdigest() == reference["pixel_values_sha256"]


SIZES = [
    (256, 256),
    (512, 320),
    (1, 1),
    (33, 47),
    (300, 200),
    (199, 1),
    (2, 399),
    (10, 2_000),
    (500, 333),
    (1_000, 777),
    (640, 480),
]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_patches_are_transformers(settings: Settings, processor: Any, size: tuple[int, int]) -> None:
    image = noise(*size)
    patches, grids = prepared(settings, file_of(image))
    expected, expected_grids = theirs(processor, image)
    assert (grids == expected_grids).all()
    assert (two_frames(patches) == expected).all()


def test_several_images_follow_one_another(settings: Settings, processor: Any) -> None:
    images = [noise(300, 200), noise(64, 900), noise(256, 256)]
    patches, grids = prepared(settings, *map(file_of, images))
    expected, expected_grids = theirs(processor, *images)
    assert (grids == expected_grids).all()
    assert (two_frames(patches) == expected).all()


def test_no_images_are_empty_tensors(settings: Settings) -> None:
    patches, grids = prepared(settings)
    assert (patches.shape, grids.shape) == ((0, 768), (0, 3))


def test_a_quarter_turn_swaps_the_grid_and_not_the_tokens(settings: Settings, processor: Any) -> None:
    image = noise(700, 300)
    turned = image.transpose(Image.Transpose.ROTATE_270)
    patches, grids = prepared(settings, rotated(image, 6, "PNG"))
    expected, expected_grids = theirs(processor, turned)
    assert (grids == expected_grids).all()
    assert (two_frames(patches) == expected).all()


# Sizes


def test_sides_are_resized_as_transformers_resizes_them() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize
    chance = random.Random(0)
    sizes = [(chance.randint(1, 80), chance.randint(1, 3_000)) for _ in range(3_000)]
    sizes += [(chance.randint(1, 9_000), chance.randint(1, 9_000)) for _ in range(3_000)]
    sizes += [(side, side * 200) for side in range(1, 90)] + [(16 + 32 * k, 48 + 32 * k) for k in range(200)]
    compared = 0
    for width, height in sizes:
        if max(width, height) > 200 * min(width, height):
            continue
        expected = smart_resize(height, width, 32, RULES.min_area, RULES.max_area)
        assert RULES.resized(width, height)[::-1] == expected
        assert RULES.resized(height, width) == expected
        compared += 1
    assert compared > 5_000


@pytest.mark.parametrize(("width", "height"), [(200, 1), (1, 200), (402, 3), (401, 2), (2_000, 10)])
def test_sides_may_differ_200_times_and_no_more(settings: Settings, width: int, height: int) -> None:
    if max(width, height) <= 200 * min(width, height):
        prepared(settings, file_of(noise(width, height)))
        return
    with pytest.raises(ValidationFailed) as caught:
        prepared(settings, file_of(noise(16, 16)), file_of(noise(width, height)))
    (issue,) = caught.value.detail
    assert (issue["loc"], issue["type"]) == (["body", "images", 1], "image_ratio")


# The release's configuration


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"patch_size": 14}, "patch_size"),
        ({"merge_size": 4}, "merge_size"),
        ({"temporal_patch_size": 1}, "temporal_patch_size"),
        ({"resample": 2}, "resample"),
        ({"image_mean": [0.48, 0.45, 0.40]}, "image_mean"),
        ({"image_std": [0.5, 0.5, 0.6]}, "image_std"),
        ({"size": {"shortest_edge": "x", "longest_edge": 1}}, "processor_config"),
        ({"size": {}}, "processor_config"),
        ({"size": None}, "processor_config"),
    ],
)
def test_a_release_with_other_rules_is_refused(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    config = json.loads((RELEASE / "processor_config.json").read_text("utf-8"))
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": config["image_processor"] | change}))
    with pytest.raises(ProcessorError, match=named):
        ImageRules.load(tmp_path)


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"image_processor": 5}'])
def test_a_release_without_rules_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "processor_config.json").write_text(content)
    with pytest.raises(ProcessorError, match="processor_config"):
        ImageRules.load(tmp_path)


def test_the_bounds_are_the_releases(tmp_path: Path) -> None:
    config = json.loads((RELEASE / "processor_config.json").read_text("utf-8"))
    config["image_processor"]["size"] = {"shortest_edge": 1_024, "longest_edge": 65_536}
    (tmp_path / "processor_config.json").write_text(json.dumps(config))
    rules = ImageRules.load(tmp_path)
    assert (rules.resized(33, 33), rules.resized(1_000, 1_000)) == ((32, 32), (256, 256))
