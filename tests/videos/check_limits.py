"""What the preprocess step takes of videos, each limit at its bound and one past it, and what it says to the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from preprocess.errors import RequestTooLarge, ValidationFailed
from preprocess.images import ProcessorError
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings
from preprocess.video_processor import VideoProcessor
from tests.golden_cases import RELEASE
from tests.preprocess.pictures import data_url, file_of, noise, png_of_zeros, rotated
from tests.videos.clips import body, clip, references

SMALL = clip(4, 64, 64)
SIZES = [len(file_of(frame)) for frame in SMALL]


@pytest.fixture(scope="module")
def step() -> Preprocessor:
    return Preprocessor(Settings(release=RELEASE, videos=True))


@pytest.fixture
def limited(step: Preprocessor, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The step under other settings."""

    def limit(**settings: Any) -> Preprocessor:
        monkeypatch.setattr(step, "settings", Settings(release=RELEASE, videos=True, **settings))
        return step

    return limit


def run(step: Preprocessor, request: dict[str, Any]) -> dict[str, Any]:
    return step(json.dumps(request).encode(), None, {})


def too_large(step: Preprocessor, request: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestTooLarge) as refused:
        run(step, request)
    assert words in str(refused.value)


def refused_at(step: Preprocessor, videos: Any, *place: int, kind: str, **fields: Any) -> None:
    with pytest.raises(ValidationFailed) as refused:
        run(step, body(**fields) | {"videos": videos})
    (issue,) = refused.value.detail
    assert (issue["loc"], issue["type"]) == (["body", "videos", *place], kind)


def test_videos_count_among_the_images(limited: Any) -> None:
    image = references([noise(32, 32)])
    run(limited(max_images=2), body(SMALL, images=image))
    too_large(limited(max_images=1), body(SMALL, images=image), "2 images and videos; 1 are allowed")
    too_large(limited(max_images=1), body(SMALL, SMALL), "2 videos; 1 are allowed")
    too_large(limited(max_images=0), body(SMALL), "1 videos; 0 are allowed")


def test_a_requests_parameter_lowers_the_number(step: Preprocessor) -> None:
    with pytest.raises(RequestTooLarge, match="0 are allowed"):
        step(json.dumps(body(SMALL)).encode(), None, {"max_images": 0})


def test_frames(limited: Any) -> None:
    run(limited(max_video_frames=8), body(SMALL, SMALL))
    too_large(limited(max_video_frames=7), body(SMALL, SMALL), "8 frames; 7 are allowed")


def test_bytes_of_a_frame(limited: Any) -> None:
    run(limited(max_image_bytes=max(SIZES)), body(SMALL))
    largest = SIZES.index(max(SIZES))
    words = f"videos[0][{largest}] has {max(SIZES)} bytes; {max(SIZES) - 1} are allowed"
    too_large(limited(max_image_bytes=max(SIZES) - 1), body(SMALL), words)


def test_bytes_of_frames_and_images_together(limited: Any) -> None:
    picture = noise(32, 32)
    size = sum(SIZES) + len(file_of(picture))
    run(limited(max_images_bytes=size), body(SMALL, images=references([picture])))
    words = f"{size} bytes together; {size - 1} are allowed"
    too_large(limited(max_images_bytes=size - 1), body(SMALL, images=references([picture])), words)


def test_pixels_of_a_frame(limited: Any) -> None:
    run(limited(max_image_pixels=4_096), body(SMALL))
    too_large(limited(max_image_pixels=4_095), body(SMALL), "videos[0][0] has 4096 pixels; 4095 are allowed")


def test_pixels_of_frames_and_images_together(limited: Any) -> None:
    # 1,000 tokens hold 1,024,000 pixels.
    frames, step = clip(60, 128, 128), limited(max_length=1_000)
    run(step, body(frames, images=references([noise(160, 256)])))
    words = "The images and frames have 1024160 pixels together; 1024000 are allowed"
    too_large(step, body(frames, images=references([noise(160, 257)])), words)


def test_bytes_of_patches(limited: Any) -> None:
    tensors = run(limited(), body(SMALL, images=references([noise(32, 32)])))
    size = tensors["PATCHES"].nbytes
    run(limited(max_patches_bytes=size), body(SMALL, images=references([noise(32, 32)])))
    words = f"patches of {size} bytes; {size - 1} are allowed"
    too_large(limited(max_patches_bytes=size - 1), body(SMALL, images=references([noise(32, 32)])), words)


def test_tokens_are_counted_before_a_frame_is_decoded(limited: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = len(run(limited(), body(SMALL))["INPUT_IDS"])
    run(limited(max_length=needed), body(SMALL))
    monkeypatch.setattr("preprocess.videos.read_rgb", None)
    too_large(limited(max_length=needed - 1), body(SMALL), f"{needed} tokens; {needed - 1} are allowed")
    bomb = data_url(png_of_zeros(20_000, 20_000))
    too_large(limited(), body() | {"videos": [[bomb, bomb]]}, "pixels; 16000000 are allowed")


def test_a_single_frame_is_no_video(step: Preprocessor) -> None:
    refused_at(step, [references(SMALL), references(SMALL[:1])], 1, kind="video_too_short")
    refused_at(step, [[]], 0, kind="video_too_short")


@pytest.mark.parametrize("video", ["x", 5, None, {"url": "x"}])
def test_a_video_is_a_list(step: Preprocessor, video: Any) -> None:
    refused_at(step, [video], 0, kind="video_type")


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        ("https://example.com/a.png", "image_url"),
        ("data:image/png,AAAA", "image_data_url"),
        ("...", "image_base64"),
        ("AAAA", "image_unreadable"),
        (data_url(file_of(SMALL[0])[:200]), "image_unreadable"),
        (data_url(file_of(noise(64, 32))), "video_frames"),
    ],
)
def test_a_bad_frame_is_named(step: Preprocessor, frame: str, kind: str) -> None:
    good = references(SMALL)
    refused_at(step, [good, [*good[:2], frame, good[3]]], 1, 2, kind=kind)


def test_a_frame_of_another_type_is_named(step: Preprocessor) -> None:
    refused_at(step, [[*references(SMALL), 5]], 0, 4, kind="image_type")


def test_frames_that_are_not_shown_are_not_decoded(step: Preprocessor) -> None:
    frames = references(clip(5, 64, 64))
    whole = run(step, body() | {"videos": [frames]})
    frames[2] = data_url(file_of(noise(64, 64))[:500])
    assert (run(step, body() | {"videos": [frames]})["PATCHES"] == whole["PATCHES"]).all()


def test_frames_are_turned_as_images_are(step: Preprocessor) -> None:
    upright = noise(64, 96)
    turned = data_url(rotated(upright, 6))
    grid = run(step, body() | {"videos": [[turned, turned]]})["IMAGE_GRID"]
    assert grid[0, 1] < grid[0, 2]
    refused_at(step, [[turned, data_url(rotated(upright, 1))]], 0, 1, kind="video_frames")


def test_frames_may_be_flat_up_to_200_to_1(step: Preprocessor) -> None:
    run(step, body(clip(2, 6_400, 32)))
    refused_at(step, [references(clip(2, 6_432, 32))], 0, kind="video_ratio")


def test_no_videos(step: Preprocessor) -> None:
    for nothing in (None, []):
        assert len(run(step, body() | {"videos": nothing})["PATCHES"]) == 0


def test_it_says_that_it_reads_videos(step: Preprocessor) -> None:
    info = json.loads(step.info())
    assert info["settings"]["videos"] is True and info["limits"]["max_video_frames"] == 256


@pytest.mark.parametrize(
    "change", [{"patch_size": 14}, {"do_normalize": False}, {"image_mean": [0.4, 0.5, 0.5]}, {"num_frames": 8}]
)
def test_a_release_with_another_way_of_cutting_is_not_served(tmp_path: Any, change: dict[str, Any]) -> None:
    config = json.loads((RELEASE / "processor_config.json").read_text("utf-8"))
    config["video_processor"] |= change
    (tmp_path / "processor_config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(ProcessorError, match=next(iter(change))):
        VideoProcessor.load(tmp_path)


def test_a_release_without_a_video_processor_is_not_served(tmp_path: Any) -> None:
    with pytest.raises(ProcessorError, match="no video processor"):
        VideoProcessor.load(tmp_path)
