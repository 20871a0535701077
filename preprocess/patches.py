"""From an RGB picture to patches: Pillow's bicubic, in bands on several threads, and the cut.

Pillow resizes along one axis and then along the other, with 8 bits in between. Along an axis every line is resized by
itself; so each pass is split into bands of whole lines, and the bands are what one call of Pillow's would have made,
to the bit.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from preprocess.threads import Threads

PATCH = 16
MERGE = 2
# Pixels of a side that make one merge block, which is one token.
BLOCK = PATCH * MERGE
PATCH_BYTES = 3 * PATCH * PATCH
RESAMPLE = Image.Resampling.BICUBIC

# On both sides of what decides, along both axes.
_EITHER_WAY = (((60, 83), (50, 64)), ((60, 85), (50, 64)), ((83, 60), (64, 50)), ((50, 64), (60, 83)))
# The 16 bytes of a patch's row move as one item: six times faster than byte by byte.
_ROW = np.dtype((np.void, PATCH))

Bytes = npt.NDArray[np.uint8]
Blocks = np.ndarray[Any, np.dtype[np.void]]
"""[block rows, block columns, row in block, column in block, channel, row in patch], of a patch's row of 16 bytes."""
Size = tuple[int, int]
"""Width and height: axis 0 and axis 1 here, as in Pillow."""


def write_patches(image: Image.Image, size: Size, out: Bytes, threads: Threads) -> None:
    """Write the patches of an RGB image, resized to `size` in multiples of 32, to `out` [P, 768].

    P runs over (block row, block column, row in block, column in block), 768 over (channel, 16, 16).
    """
    blocks = out.view(_ROW).reshape(size[1] // BLOCK, size[0] // BLOCK, MERGE, MERGE, 3, PATCH)
    axes = [axis for axis in _order(image.size, size) if image.size[axis] != size[axis]]
    if threads.count == 1 or not axes or not orders_rightly():
        _cut(image.resize(size, RESAMPLE) if axes else image, blocks)
        return
    *before, last = axes
    for axis in before:
        image = _resized(image, axis, size[axis], threads)

    def band(ends: Size) -> None:
        start, end = ends
        lines = _lines(image, last, start * BLOCK, end * BLOCK)
        _cut(_along(lines, last, size[last]), blocks[:, start:end] if last == 1 else blocks[start:end])

    threads.map(band, _split(size[1 - last] // BLOCK, threads.count))


@functools.cache
def orders_rightly() -> bool:
    """Whether the Pillow that is installed resizes along the axes in the order that is known of it here."""
    for size, to in _EITHER_WAY:
        noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
        whole = image = Image.fromarray(noise)
        for axis in _order(size, to):
            image = _along(image, axis, to[axis])
        if image.tobytes() != whole.resize(to, RESAMPLE).tobytes():
            return False
    return True


def _order(size: Size, to: Size) -> tuple[int, int]:
    """The axes in the order in which Pillow 13 resizes along them: what comes between is rounded, so it matters."""
    lost = size[0] - to[0], size[1] - to[1]
    return (1, 0) if lost[1] > max(0, 2 * lost[0]) else (0, 1)


def _resized(image: Image.Image, axis: int, to: int, threads: Threads) -> Image.Image:
    """The image resized along one axis."""
    whole = Image.new("RGB", (to, image.height) if axis == 0 else (image.width, to), None)

    def band(ends: Size) -> None:
        start, end = ends
        whole.paste(_along(_lines(image, axis, start, end), axis, to), (start, 0) if axis == 1 else (0, start))

    threads.map(band, _split(image.size[1 - axis], threads.count))
    return whole


def _lines(image: Image.Image, axis: int, start: int, end: int) -> Image.Image:
    """Those of the lines along an axis."""
    return image.crop((start, 0, end, image.height) if axis == 1 else (0, start, image.width, end))


def _along(image: Image.Image, axis: int, to: int) -> Image.Image:
    return image.resize((to, image.height) if axis == 0 else (image.width, to), RESAMPLE)


def _split(length: int, parts: int) -> list[Size]:
    """Starts and ends of some such parts, alike in length, none empty."""
    parts = min(parts, length)
    return list(pairwise(length * part // parts for part in range(parts + 1)))


def _cut(image: Image.Image, blocks: Blocks) -> None:
    rows, columns = blocks.shape[:2]
    for channel, name in enumerate("RGB"):
        # One copy; as an image of its own a channel is copied twice.
        plane = np.frombuffer(image.tobytes("raw", name), _ROW).reshape(rows, MERGE, PATCH, columns, MERGE)
        blocks[:, :, :, :, channel] = plane.transpose(0, 3, 1, 4, 2)
