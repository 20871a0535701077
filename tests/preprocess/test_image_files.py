"""Sizes from headers, RGB from pixels, in the faithful way and in the release's; broken files are only unreadable."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from preprocess.image_files import read_rgb, read_size
from preprocess.image_headers import Unreadable
from preprocess.settings import ImageMode
from tests.preprocess.pictures import (
    file_of,
    jpeg_of_scans,
    jpeg_of_segments,
    jpeg_of_size,
    noise,
    png_of_chunks,
    png_of_profiles,
    png_of_zeros,
    rotated,
    webp_of_size,
)

MODES: tuple[ImageMode, ...] = ("faithful", "release")
PICTURE = noise(50, 40)


def pixels(image: Image.Image) -> np.ndarray[Any, Any]:
    return np.asarray(image).astype(int)


FILES = {
    "png": file_of(PICTURE),
    "png-palette": file_of(PICTURE.quantize(64)),
    "png-grey": file_of(PICTURE.convert("L")),
    "png-one-bit": file_of(PICTURE.convert("1")),
    "png-interlaced": file_of(PICTURE, optimize=True),
    "jpeg": file_of(PICTURE, "JPEG"),
    "jpeg-progressive": file_of(PICTURE, "JPEG", progressive=True),
    "jpeg-grey": file_of(PICTURE.convert("L"), "JPEG"),
    "webp": file_of(PICTURE, "WEBP"),
    "webp-lossless": file_of(PICTURE, "WEBP", lossless=True),
    "webp-extended": rotated(PICTURE, 1, "WEBP"),
}


@pytest.mark.parametrize("name", FILES)
def test_the_header_says_the_size(name: str) -> None:
    assert read_size(FILES[name]) == (50, 40)


@pytest.mark.parametrize("name", FILES)
def test_upright_opaque_pictures_are_the_same_in_both_modes(name: str) -> None:
    expected = Image.open(BytesIO(FILES[name])).convert("RGB")
    for mode in MODES:
        image = read_rgb(FILES[name], mode)
        assert image.mode == "RGB"
        assert (pixels(image) == pixels(expected)).all()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_orientation_is_applied_by_the_faithful_mode_alone(kind: str, orientation: int) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    data = rotated(PICTURE, orientation, kind, **options)
    assert read_size(data) == (50, 40)
    stored = Image.open(BytesIO(data)).convert("RGB")
    by_hand = {
        1: lambda p: p,
        2: lambda p: p[:, ::-1],
        3: lambda p: p[::-1, ::-1],
        4: lambda p: p[::-1],
        5: lambda p: p.transpose(1, 0, 2),
        6: lambda p: p.transpose(1, 0, 2)[:, ::-1],
        7: lambda p: p.transpose(1, 0, 2)[::-1, ::-1],
        8: lambda p: p.transpose(1, 0, 2)[::-1],
    }
    assert (pixels(read_rgb(data, "faithful")) == by_hand[orientation](pixels(stored))).all()
    assert (pixels(read_rgb(data, "release")) == pixels(stored)).all()


@pytest.mark.parametrize("orientation", [0, 9, 255, 65_535])
def test_an_orientation_that_means_nothing_is_ignored(orientation: int) -> None:
    assert read_rgb(rotated(PICTURE, orientation), "faithful").size == (50, 40)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_a_picture_is_not_refused_for_its_metadata() -> None:
    data = rotated(PICTURE, 6)
    place = data.index(b"Exif\0\0")
    broken = data[: place + 6] + b"\xff" * 8 + data[place + 14 :]
    assert read_rgb(broken, "faithful").size == (50, 40)


def with_alpha(alpha: int) -> Image.Image:
    image = PICTURE.convert("RGBA")
    image.putalpha(alpha)
    return image


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
@pytest.mark.parametrize(("alpha", "weight"), [(0, 0.0), (128, 128 / 255), (255, 1.0)])
def test_alpha_lies_on_white(kind: str, alpha: int, weight: float) -> None:
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    data = file_of(with_alpha(alpha), kind, **options)
    expected = pixels(PICTURE) * weight + 255 * (1 - weight)
    assert np.abs(pixels(read_rgb(data, "faithful")) - expected).max() <= 1
    assert (pixels(read_rgb(data, "release")) == pixels(PICTURE)).all()


def test_grey_with_alpha_lies_on_white() -> None:
    image = Image.merge("LA", (PICTURE.convert("L"), Image.new("L", PICTURE.size, 0)))
    assert (pixels(read_rgb(file_of(image), "faithful")) == 255).all()


@pytest.mark.parametrize("mode", ["L", "RGB", "P", "1"])
def test_a_colour_declared_transparent_lies_on_white(mode: str) -> None:
    image = Image.new(mode, (4, 4), {"L": 7, "RGB": (7, 8, 9), "P": 0, "1": 0}[mode])
    transparency = {"L": 7, "RGB": (7, 8, 9), "P": 0, "1": 0}[mode]
    data = file_of(image, transparency=transparency)
    assert (pixels(read_rgb(data, "faithful")) == 255).all()
    assert (pixels(read_rgb(data, "release")) != 255).all()


@pytest.mark.filterwarnings("ignore:Palette images with Transparency:UserWarning")
def test_a_palette_with_alpha_lies_on_white() -> None:
    image = PICTURE.quantize(16)
    opaque = pixels(image.convert("RGB"))
    data = file_of(image, transparency=bytes([0] * 8 + [255] * 8))
    clear = np.asarray(image) < 8
    faithful = pixels(read_rgb(data, "faithful"))
    assert (faithful[clear] == 255).all() and (faithful[~clear] == opaque[~clear]).all()
    assert (pixels(read_rgb(data, "release")) == opaque).all()


def test_sixteen_bits_are_scaled_and_not_clipped() -> None:
    ramp = np.linspace(0, 65_535, 256).round().astype(np.uint16)
    data = file_of(Image.fromarray(np.tile(ramp, (4, 1))))
    assert read_size(data) == (256, 4)
    assert (pixels(read_rgb(data, "faithful")) == np.arange(256)[None, :, None]).all()
    assert (pixels(read_rgb(data, "release"))[:, 1:] == 255).all()


def test_a_sixteen_bit_value_declared_transparent_lies_on_white() -> None:
    grey = np.array([[0, 300, 30_000, 65_535]], dtype=np.uint16)
    data = file_of(Image.fromarray(grey), transparency=300)
    assert pixels(read_rgb(data, "faithful"))[0, :, 0].tolist() == [0, 255, 117, 255]


def test_cmyk_becomes_rgb() -> None:
    data = file_of(PICTURE.convert("CMYK"), "JPEG", quality=100)
    for mode in MODES:
        assert np.abs(pixels(read_rgb(data, mode)) - pixels(PICTURE)).mean() < 10


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_the_first_frame_is_read(kind: str) -> None:
    first, second = Image.new("RGB", (8, 8), "red"), Image.new("RGB", (8, 8), "blue")
    options = {"lossless": True} if kind == "WEBP" else {}
    data = file_of(first, kind, save_all=True, append_images=[second], **options)
    for mode in MODES:
        assert (pixels(read_rgb(data, mode)) == (255, 0, 0)).all()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"%PDF-1.7",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        file_of(PICTURE, "GIF"),
        file_of(PICTURE, "BMP"),
        file_of(PICTURE, "TIFF"),
        file_of(PICTURE, "ICO"),
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff",
        b"RIFF\x00\x00\x00\x00WEBP",
        b"RIFF\x00\x00\x00\x00WEBPVP8X",
        b"RIFF\x00\x00\x00\x00WEBPICCP" + bytes(100),
        b"RIFF\x00\x00\x00\x00WEBPVP8 " + bytes(100),
        png_of_zeros(0, 10),
    ],
)
def test_other_files_are_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        read_size(data)


@pytest.mark.parametrize("name", FILES)
def test_half_a_file_is_unreadable(name: str) -> None:
    half = FILES[name][: len(FILES[name]) // 2]
    with pytest.raises(Unreadable):
        read_rgb(half, "faithful")


BOMBS = {
    "png-400-mpx": (png_of_zeros, 20_000, 20_000),
    "png-100-mpx": (png_of_zeros, 10_000, 10_000),
    "jpeg-4-gpx": (jpeg_of_size, 65_535, 65_535),
    "webp-268-mpx": (webp_of_size, 16_383, 16_383),
    "webp-281-tpx": (webp_of_size, 1 << 24, 1 << 24),
}


@pytest.mark.parametrize("name", BOMBS)
def test_the_size_of_a_bomb_is_read_without_its_pixels(name: str) -> None:
    make, width, height = BOMBS[name]
    data = make(width, height)
    assert len(data) < 100_000
    tracemalloc.start()
    try:
        assert read_size(data) == (width, height)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("make", "taken"),
    [
        (jpeg_of_scans, 50),
        (partial(jpeg_of_segments, b"\xff\xfe\0\2"), 9_900),
        (partial(jpeg_of_segments, b"\xff\xf0"), 4_900),
        (partial(jpeg_of_segments, b"\xff"), 9_900),
        (partial(jpeg_of_segments, b"x"), 9_900),
        (png_of_profiles, 1),
        (png_of_chunks, 9_900),
    ],
)
def test_a_file_that_costs_more_than_its_size_is_unreadable(make: Callable[[int], bytes], taken: int) -> None:
    assert read_size(make(taken)) == (16, 16)
    for data in (make(taken + 200), make(100_000)[: 4 << 20]):
        with pytest.raises(Unreadable):
            read_size(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("behind", [bytes(2 << 20), b"\xff\xda\0\2" * 100_000, random.Random(0).randbytes(3 << 20)])
def test_what_stands_behind_a_picture_does_not_matter(kind: str, behind: bytes) -> None:
    # Phones put a video there.
    options = {"JPEG": {"progressive": True}, "PNG": {}, "WEBP": {}}[kind]
    data = file_of(PICTURE, kind, **options)
    assert read_size(data + behind) == (50, 40)
    assert (pixels(read_rgb(data + behind, "faithful")) == pixels(read_rgb(data, "faithful"))).all()


def test_a_thumbnail_is_no_scan() -> None:
    data = file_of(PICTURE, "JPEG")
    thumbnails = b"".join(b"\xff\xe5\xff\xff" + b"\xff\xda\xff\xd9" * 16_383 + b"\0" for _ in range(3))
    assert read_rgb(data[:2] + thumbnails + data[2:], "faithful").size == (50, 40)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@given(st.sampled_from(sorted(FILES)), st.integers(0, 2**32), st.integers(1, 20))
def test_a_broken_file_is_read_or_unreadable(name: str, seed: int, changes: int) -> None:
    chance = random.Random(seed)
    data = bytearray(FILES[name])
    for _ in range(changes):
        place = chance.randrange(len(data))
        action = chance.randrange(4)
        if action == 0:
            data[place] = chance.randrange(256)
        elif action == 1:
            data[min(place, 60)] = chance.choice((0, 1, 127, 128, 255))
        elif action == 2:
            del data[place : place + chance.choice((1, 4, 30))]
        else:
            data[place:place] = chance.randbytes(chance.choice((1, 4, 30)))
        if not data:
            break
    try:
        width, height = read_size(bytes(data))
        if width * height <= 1_000_000:
            for mode in MODES:
                assert read_rgb(bytes(data), mode).mode == "RGB"
    except Unreadable:
        pass
