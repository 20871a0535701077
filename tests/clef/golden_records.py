"""The golden cases as records, straight from the publisher's ids and spans: no encoder of ours takes part."""

from __future__ import annotations

import base64
import hashlib
import io
import random
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from clef.batch import PATCH_BYTES, Record
from tests.golden_cases import CASES, RELEASE

IMAGE_CASES = [name for name, case in CASES.items() if "image_grid_thw" in case["reference"]]
TEXT_CASES = [name for name in CASES if name not in IMAGE_CASES]
LONG_CASES = [name for name in CASES if len(CASES[name]["reference"]["input_ids"]) > 1000]
SHORT_CASES = [name for name in CASES if name not in LONG_CASES]


def ints(values: Any, *shape: int) -> NDArray[np.int32]:
    return np.array(values, np.int32).reshape(shape)


@cache
def record(name: str) -> Record:
    reference = CASES[name]["reference"]
    questions = reference["questions"]
    patches, grid = images(name)
    return Record(
        input_ids=ints(reference["input_ids"], -1),
        question_spans=ints([question["span"] for question in questions], -1, 2),
        question_types=ints([question["type"] for question in questions], -1),
        option_counts=ints([len(question["option_spans"]) for question in questions], -1),
        option_spans=ints([span for question in questions for span in question["option_spans"]], -1, 2),
        state_end=questions[0]["span"][0],
        patches=patches,
        image_grid=grid,
    )


def any_mix(seed: int) -> list[str]:
    """Short cases, two to nine, some more than once."""
    chance = random.Random(seed)
    return chance.choices(SHORT_CASES, k=chance.randint(2, 9))


def images_beside_text(seed: int) -> list[str]:
    """Three cases with images among two of text."""
    chance = random.Random(seed)
    names = chance.sample(IMAGE_CASES, k=3) + chance.sample([name for name in TEXT_CASES if name in SHORT_CASES], k=2)
    chance.shuffle(names)
    return names


def expected(name: str) -> NDArray[np.float32]:
    """The publisher's logits of all questions, in head order."""
    return np.concatenate([np.array(logits, np.float32) for logits in CASES[name]["reference"]["logits"]])


def images(name: str) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Patches and grid of a case by transformers' Pillow processor."""
    reference = CASES[name]["reference"]
    if name not in IMAGE_CASES:
        return np.empty((0, PATCH_BYTES), np.uint8), ints([], 0, 3)
    data = [base64.b64decode(url.split(",")[1]) for url in CASES[name]["request"]["images"]]
    pictures = [Image.open(io.BytesIO(file)).convert("RGB") for file in data]
    made = Qwen2VLImageProcessorPil.from_pretrained(RELEASE)(images=pictures, return_tensors="np")
    pairs = np.round(made["pixel_values"] * 127.5 + 127.5).astype(np.uint8)
    if name != "image-resized":  # which torchvision resized for the publisher
        assert hashlib.sha256(pairs.tobytes()).hexdigest() == reference["pixel_values_sha256"]
    assert made["image_grid_thw"].tolist() == reference["image_grid_thw"]
    frames = pairs.reshape(len(pairs), 3, 2, 16 * 16)
    return frames[:, :, 0].reshape(len(pairs), PATCH_BYTES), ints(reference["image_grid_thw"], -1, 3)
