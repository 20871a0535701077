"""The images of a request: files to patches, as `processor_config.json` of a Clef release has them cut.

An image is resized so that both sides are multiples of 32 and its area lies within the release's bounds, then cut
into 16 x 16 patches in the order of their 2 x 2 merge blocks. Patches stay bytes of one frame: the model step
normalises them and repeats the frame, on its device. Equal to transformers' Pillow image processor (5.24.0).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
from PIL import Image

from preprocess.errors import RequestTooLarge, ValidationFailed
from preprocess.image_files import read_rgb, read_size
from preprocess.image_headers import Unreadable
from preprocess.image_references import (
    IMAGES,
    Within,
    check_file_size,
    check_files_size,
    check_image_count,
    name_of,
)
from preprocess.patches import BLOCK, MERGE, PATCH, PATCH_BYTES, RESAMPLE, Bytes, write_patches
from preprocess.settings import ImageMode, Settings
from preprocess.threads import ALONE, Threads

MAX_SIDES_RATIO = 200
# Bands of a smaller picture take as long as the whole of it: a thread must be woken for them.
PIXELS_FOR_BANDS = 384 * 384

_FIXED = {
    "patch_size": PATCH,
    "merge_size": MERGE,
    "temporal_patch_size": 2,
    "resample": RESAMPLE,
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
}

Ints = npt.NDArray[np.int32]


class ProcessorError(Exception):
    """The release wants its images prepared in a way that this step does not know; it must not start."""


@dataclass(frozen=True, slots=True)
class ImageRules:
    """Bounds of the area of a resized image, in pixels."""

    min_area: int
    max_area: int

    @classmethod
    def load(cls, release: Path) -> Self:
        """The rules of a release directory. Raises ProcessorError where it is cut in other patches than these."""
        path = release / "processor_config.json"
        try:
            config = json.loads(path.read_text(encoding="utf-8"))["image_processor"]
            size = config["size"]
            rules = cls(int(size["shortest_edge"]), int(size["longest_edge"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ProcessorError(f"{path} cannot be read: {error!r}") from error
        for key, expected in _FIXED.items():
            if config.get(key) != expected:
                raise ProcessorError(f"{path}: {key} is {config.get(key)}, and only {expected} is served.")
        return rules

    def resized(self, width: int, height: int) -> tuple[int, int]:
        """Width and height that an image is resized to. Raises ValueError for sides over 200 to 1."""
        if max(width, height) > MAX_SIDES_RATIO * min(width, height):
            raise ValueError
        area = width * height
        to = round(width / BLOCK) * BLOCK, round(height / BLOCK) * BLOCK
        if to[0] * to[1] > self.max_area:
            scale = math.sqrt(area / self.max_area)
            return _floor(width / scale), _floor(height / scale)
        if to[0] * to[1] < self.min_area:
            scale = math.sqrt(self.min_area / area)
            return _ceil(width * scale), _ceil(height * scale)
        return to


def _floor(side: float) -> int:
    return max(BLOCK, math.floor(side / BLOCK) * BLOCK)


def _ceil(side: float) -> int:
    return math.ceil(side / BLOCK) * BLOCK


class Images:
    """The images of one request, checked by their headers; `patches` decodes them."""

    def __init__(self, files: list[bytes], rules: ImageRules, settings: Settings) -> None:
        """Raises RequestTooLarge (413) over a limit, ValidationFailed (422) for what is no image."""
        check_image_count(len(files), settings)
        for index, data in enumerate(files):
            check_file_size(len(data), index, settings)
        check_files_size(files, settings)
        self.files = files
        self._rules = rules
        self._sizes = [header_size(data, index, settings) for index, data in enumerate(files)]
        self.pixels = sum(width * height for width, height in self._sizes)
        if self.pixels > settings.pixels_together:
            message = f"The images have {self.pixels} pixels together; {settings.pixels_together} are allowed."
            raise RequestTooLarge(message)
        grids = [grid(*self._resized(index, *size)) for index, size in enumerate(self._sizes)]
        self.header_grids: Ints = np.array(grids, dtype=np.int32).reshape(-1, 3)
        self._patches = sum(math.prod(each) for each in grids)
        self.patches_bytes = self._patches * PATCH_BYTES
        size, most = self.patches_bytes, settings.max_patches_bytes
        if most is not None and size > most:
            raise RequestTooLarge(f"The images make patches of {size} bytes; {most} are allowed.")

    def patches(self, mode: ImageMode, threads: Threads) -> tuple[Bytes, Ints]:
        """Patches [P, 768] and grids [n, 3] (time, height, width in patches), decoded.

        A grid may differ from `header_grids` by a quarter turn, never in its number of patches.
        """
        patches = np.empty((self._patches, PATCH_BYTES), dtype=np.uint8)
        ends = self.header_grids.prod(axis=1).cumsum().tolist()
        starts = [0, *ends]
        # Several images side by side, or one in bands. What is decoded at once, the tokens of the request bound.
        images, bands = threads, ALONE
        if len(self.files) == 1:
            images, bands = ALONE, threads if self.pixels >= PIXELS_FOR_BANDS else ALONE

        def one(index: int) -> tuple[int, int, int]:
            image = self._decoded(index, self.files[index], mode)
            size = self._resized(index, *image.size)
            write_patches(image, size, patches[starts[index] : ends[index]], bands)
            return grid(*size)

        grids = images.map(one, range(len(self.files)))
        return patches, np.array(grids, dtype=np.int32).reshape(-1, 3)

    def _decoded(self, index: int, data: bytes, mode: ImageMode) -> Image.Image:
        try:
            image = read_rgb(data, mode)
        except Unreadable:
            raise unreadable(index) from None
        if sorted(image.size) != sorted(self._sizes[index]):
            raise unreadable(index)
        return image

    def _resized(self, index: int, width: int, height: int) -> tuple[int, int]:
        try:
            return self._rules.resized(width, height)
        except ValueError:
            message = f"One side of the image is over {MAX_SIDES_RATIO} times the other"
            raise ValidationFailed.at(["body", "images", index], message, "image_ratio") from None


def header_size(data: bytes, index: int, settings: Settings, within: Within = IMAGES) -> tuple[int, int]:
    """Width and height of an image file. Raises ValidationFailed for what is none, RequestTooLarge over the limit."""
    try:
        width, height = read_size(data)
    except Unreadable:
        raise unreadable(index, within) from None
    if width * height > settings.max_image_pixels:
        message = f"{name_of(index, within)} has {width * height} pixels; {settings.max_image_pixels} are allowed."
        raise RequestTooLarge(message)
    return width, height


def grid(width: int, height: int) -> tuple[int, int, int]:
    """Patches of an image with these sides: in time, down, across."""
    return 1, height // PATCH, width // PATCH


def unreadable(index: int, within: Within = IMAGES) -> ValidationFailed:
    """What a file is told that cannot be decoded."""
    return ValidationFailed.at(["body", *within, index], "Not a readable PNG, JPEG or WebP image", "image_unreadable")
