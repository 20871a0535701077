"""Patches: their order, and bands that are what one call of Pillow's resize makes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from preprocess import patches
from preprocess.patches import PATCH_BYTES, RESAMPLE, orders_rightly, write_patches
from preprocess.threads import ALONE, Threads
from tests.preprocess.pictures import noise
from tests.preprocess.prepared import Array

THREADS = {count: Threads(count) for count in (2, 3, 4)}


def patches_of(image: Image.Image, size: tuple[int, int], threads: Threads = ALONE) -> Array:
    out = np.zeros((size[0] * size[1] // 256, PATCH_BYTES), dtype=np.uint8)
    write_patches(image, size, out, threads)
    return out


def picture_of(patches: Array, size: tuple[int, int]) -> Array:
    """[height, width, 3]: the picture that was cut."""
    blocks = patches.reshape(size[1] // 32, size[0] // 32, 2, 2, 3, 16, 16)
    return blocks.transpose(0, 2, 5, 1, 3, 6, 4).reshape(size[1], size[0], 3)


def agree(image: Image.Image, size: tuple[int, int], count: int) -> None:
    expected = np.asarray(image.resize(size, RESAMPLE))
    assert (picture_of(patches_of(image, size), size) == expected).all()
    assert (picture_of(patches_of(image, size, THREADS[count]), size) == expected).all()


def test_patches_run_over_merge_blocks() -> None:
    # Every patch of this picture has a colour of its own, which says where it lies.
    rows, columns = 4, 6
    patch_of = np.arange(rows * columns).reshape(rows, columns)
    plane = patch_of.repeat(16, 0).repeat(16, 1)
    image = Image.fromarray(np.stack([plane, plane + 100, plane + 200], axis=2).astype(np.uint8))
    out = patches_of(image, image.size)
    order = [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, 12, 13, 18, 19, 14, 15, 20, 21, 16, 17, 22, 23]
    assert out[:, 0].tolist() == order
    assert (out.reshape(-1, 3, 256) == (np.array(order)[:, None] + [0, 100, 200]).astype(np.uint8)[:, :, None]).all()


def test_a_patch_keeps_its_rows() -> None:
    image = noise(32, 32)
    out = patches_of(image, image.size)
    assert (out[2].reshape(3, 16, 16) == np.asarray(image)[16:, :16].transpose(2, 0, 1)).all()


@pytest.mark.parametrize("count", THREADS)
@pytest.mark.parametrize(
    ("source", "size"),
    [
        ((1_200, 850), (1_216, 864)),
        ((1_199, 853), (1_184, 864)),
        ((1, 1), (256, 256)),
        ((2, 399), (32, 3_648)),
        ((2_000, 10), (3_648, 32)),
        ((3_001, 33), (992, 32)),
        ((640, 475), (640, 480)),
        ((633, 480), (640, 480)),
        ((96, 96), (96, 96)),
    ],
    ids=str,
)
def test_bands_are_one_resize(source: tuple[int, int], size: tuple[int, int], count: int) -> None:
    agree(noise(*source), size, count)


# How far a side is from its resized one, in pixels: every sign, and both sides of the bound at which Pillow resizes
# along the height first.
SHIFTS = [(x, y) for x in (-9, -1, 0, 1, 2, 3, 8) for y in (-9, -1, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17)]


@pytest.mark.parametrize("shift", SHIFTS, ids=str)
def test_bands_follow_pillows_order_of_the_axes(shift: tuple[int, int]) -> None:
    agree(noise(128 + shift[0], 96 + shift[1]), (128, 96), 3)


def test_the_order_of_the_axes_matters() -> None:
    image = noise(120, 100)
    orders = [image.resize((128, 100), RESAMPLE), image.resize((120, 96), RESAMPLE)]
    across, down = (np.asarray(each.resize((128, 96), RESAMPLE)) for each in orders)
    assert (across != down).any()


sides = st.integers(1, 300)
blocks = st.integers(1, 9)


@settings(max_examples=300, deadline=None)
@given(sides, sides, blocks, blocks, st.sampled_from(sorted(THREADS)), st.integers(0, 9))
def test_bands_are_one_resize_whatever_the_sizes(
    w: int, h: int, columns: int, rows: int, count: int, seed: int
) -> None:
    agree(noise(w, h, seed), (columns * 32, rows * 32), count)


def test_the_order_of_the_axes_is_this_pillows() -> None:
    assert orders_rightly()


@pytest.mark.parametrize("wrong", [(0, 1), (1, 0)])
def test_with_a_pillow_of_another_order_nothing_is_banded(
    monkeypatch: pytest.MonkeyPatch, wrong: tuple[int, int]
) -> None:
    monkeypatch.setattr(patches, "_order", lambda size, to: wrong)
    orders_rightly.cache_clear()
    try:
        assert not orders_rightly()
        agree(noise(600, 850), (608, 416), 2)
        agree(noise(850, 600), (416, 608), 2)
    finally:
        orders_rightly.cache_clear()
