"""Limits on images at their bound and one past, bombs, and files that are no pictures."""

from __future__ import annotations

from typing import Any

import pytest

from preprocess.errors import RequestTooLarge, ValidationFailed
from preprocess.images import Images
from preprocess.settings import Settings
from preprocess.threads import Threads
from tests.preprocess.pictures import file_of, jpeg_of_size, noise, png_of_zeros, webp_of_size
from tests.preprocess.prepared import RULES, THREADS, prepared


def limited(settings: Settings, **update: Any) -> Settings:
    return settings.model_copy(update=update)


def test_the_number_of_images(settings: Settings) -> None:
    data = file_of(noise(32, 32))
    prepared(settings, *[data] * 4)
    with pytest.raises(RequestTooLarge, match="5 images; 4 are allowed"):
        prepared(settings, *[data] * 5)
    with pytest.raises(RequestTooLarge, match="1 images; 0 are allowed"):
        prepared(limited(settings, max_images=0), data)


def test_the_bytes_of_one_image_and_of_all(settings: Settings) -> None:
    data = file_of(noise(32, 32))
    prepared(limited(settings, max_image_bytes=len(data), max_images_bytes=2 * len(data)), data, data)
    with pytest.raises(RequestTooLarge, match=rf"images\[1\] has {len(data) + 1} bytes; {len(data)} are allowed"):
        prepared(limited(settings, max_image_bytes=len(data)), data, data + b"x")
    with pytest.raises(RequestTooLarge, match=f"{2 * len(data)} bytes together; {2 * len(data) - 1} are allowed"):
        prepared(limited(settings, max_images_bytes=2 * len(data) - 1), data, data)


def test_the_pixels_of_one_image(settings: Settings) -> None:
    data = file_of(noise(50, 40))
    prepared(limited(settings, max_image_pixels=2_000), data)
    with pytest.raises(RequestTooLarge, match=r"images\[0\] has 2000 pixels; 1999 are allowed"):
        prepared(limited(settings, max_image_pixels=1_999), data)


def test_the_pixels_of_all_images_are_what_the_tokens_hold(settings: Settings) -> None:
    # 320 tokens: 327,680 pixels.
    narrow = limited(settings, max_length=320)
    prepared(narrow, file_of(noise(640, 256)), file_of(noise(640, 256)))
    with pytest.raises(RequestTooLarge, match="328320 pixels together; 327680 are allowed"):
        prepared(narrow, file_of(noise(640, 256)), file_of(noise(640, 257)))


def test_the_bytes_of_the_patches(settings: Settings) -> None:
    data = file_of(noise(16, 16))
    needed = 65_536 * 3
    prepared(limited(settings, max_patches_bytes=needed), data)
    with pytest.raises(RequestTooLarge, match=f"{needed} bytes; {needed - 1} are allowed"):
        prepared(limited(settings, max_patches_bytes=needed - 1), data)


@pytest.mark.parametrize(
    "data",
    [
        png_of_zeros(20_000, 20_000),
        png_of_zeros(10_000, 10_000),
        jpeg_of_size(65_535, 65_535),
        webp_of_size(16_383, 16_383),
        png_of_zeros(4_001, 4_000),
    ],
)
def test_bombs_are_refused_by_their_headers(settings: Settings, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("preprocess.images.read_rgb", None)
    with pytest.raises(RequestTooLarge, match="pixels; 16000000 are allowed"):
        Images([data], RULES, settings)


def test_the_largest_picture_is_read(settings: Settings) -> None:
    patches, grids = prepared(settings, png_of_zeros(4_000, 4_000))
    assert grids.tolist() == [[1, 250, 250]]
    assert not patches.any()


@pytest.mark.parametrize("index", [0, 2])
@pytest.mark.parametrize("data", [b"", b"%PDF-1.7 secret", b"<svg>secret</svg>", file_of(noise(64, 64), "GIF")])
def test_a_file_that_is_no_picture_is_named_by_its_index(settings: Settings, index: int, data: bytes) -> None:
    files = [file_of(noise(32, 32))] * 3
    files[index] = data
    with pytest.raises(ValidationFailed) as caught:
        Images(files, RULES, settings)
    (issue,) = caught.value.detail
    assert (issue["loc"], issue["type"]) == (["body", "images", index], "image_unreadable")
    assert "secret" not in caught.value.to_json()


def test_half_a_picture_is_named_by_its_index(settings: Settings) -> None:
    whole = file_of(noise(256, 256), "JPEG")
    images = Images([whole, whole[: len(whole) // 2]], RULES, settings)
    with pytest.raises(ValidationFailed) as caught:
        images.patches("faithful", THREADS)
    assert caught.value.detail[0]["loc"] == ["body", "images", 1]


def test_the_first_of_several_broken_pictures_is_named(settings: Settings) -> None:
    # It is also the one that takes longest to be found broken.
    large, small = file_of(noise(900, 900), "JPEG"), file_of(noise(64, 64), "JPEG")
    images = Images([small, large[: len(large) - 9_000], small[:-200], small], RULES, settings)
    for _ in range(5):
        with pytest.raises(ValidationFailed) as caught:
            images.patches("faithful", THREADS)
        assert caught.value.detail[0]["loc"] == ["body", "images", 1]


def test_a_picture_of_another_size_than_its_header_is_unreadable(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = Images([file_of(noise(64, 64))], RULES, settings)
    monkeypatch.setattr("preprocess.images.read_rgb", lambda data, mode: noise(64, 65))
    with pytest.raises(ValidationFailed):
        images.patches("faithful", THREADS)


@pytest.mark.parametrize(
    ("sizes", "calls"),
    [([(400, 400)] * 2, [2]), ([(392, 380)], [3, 3]), ([(390, 370)], [])],
)
def test_several_pictures_are_read_side_by_side_and_a_large_one_in_bands(
    settings: Settings, sizes: list[tuple[int, int]], calls: list[int]
) -> None:
    class Counted(Threads):
        def map(self, call: Any, items: Any) -> Any:
            told = list(items)
            seen.append(len(told))
            return super().map(call, told)

    seen: list[int] = []
    Images([file_of(noise(*size)) for size in sizes], RULES, settings).patches("faithful", Counted(3))
    assert seen == calls
