"""What the preprocess step takes of videos, each limit at its bound and one past it, and what it says to the rest."""

from __future__ import annotations

import json
import resource
from contextlib import ExitStack
from io import BytesIO
from typing import Any

import av
import numpy as np
import psutil
import pytest
from PIL import Image

from preprocess import video_decoder
from preprocess.errors import RequestTooLarge, ValidationFailed
from preprocess.images import ProcessorError
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings
from preprocess.video_files import VideoFile
from preprocess.video_processor import VideoProcessor
from tests.golden_cases import RELEASE
from tests.preprocess.pictures import data_url, file_of, noise, png_of_zeros, rotated
from tests.videos.clips import body, claiming, clip, references, video_file

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


def cpu_of_decoders_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
    frames, step = clip(60, 128, 128), limited(max_length=1_000, max_video_frames=60)
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
    monkeypatch.setattr("preprocess.video_frames.read_rgb", None)
    too_large(limited(max_length=needed - 1), body(SMALL), f"{needed} tokens; {needed - 1} are allowed")
    bomb = data_url(png_of_zeros(20_000, 20_000))
    too_large(limited(), body() | {"videos": [[bomb, bomb]]}, "pixels; 16000000 are allowed")


def test_a_single_frame_is_no_video(step: Preprocessor) -> None:
    refused_at(step, [references(SMALL), references(SMALL[:1])], 1, kind="video_too_short")
    refused_at(step, [[]], 0, kind="video_too_short")


@pytest.mark.parametrize("video", [5, None, {"url": "x"}])
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


# Files


FILE = video_file(clip(30, 128, 96))


@pytest.mark.parametrize(
    ("codec", "kind"), [("mpeg4", "mp4"), ("libx264", "mp4"), ("libvpx", "webm"), ("libvpx-vp9", "webm")]
)
def test_a_file(step: Preprocessor, codec: str, kind: str) -> None:
    grid = run(step, body(video_file(clip(30, 128, 96), codec, kind)))["IMAGE_GRID"]
    assert grid.tolist() == [[4, 10, 14]]


def test_frames_of_files_and_lists_together(limited: Any) -> None:
    run(limited(max_video_frames=34), body(FILE, SMALL))
    too_large(limited(max_video_frames=33), body(FILE, SMALL), "34 frames; 33 are allowed")
    # More are not counted.
    too_large(limited(max_video_frames=10), body(FILE), "11 frames; 10 are allowed")


def test_bytes_of_a_file(limited: Any) -> None:
    run(limited(max_images_bytes=len(FILE), max_image_bytes=1), body(FILE))
    words = f"videos[0] has {len(FILE)} bytes; {len(FILE) - 1} are allowed"
    too_large(limited(max_images_bytes=len(FILE) - 1), body(FILE), words)
    size = len(FILE) + sum(SIZES)
    too_large(limited(max_images_bytes=size - 1), body(FILE, SMALL), f"{size} bytes together; {size - 1} are allowed")


def test_pixels_of_a_file(limited: Any) -> None:
    pixels = 128 * 96
    run(limited(max_image_pixels=pixels), body(FILE))
    too_large(limited(max_image_pixels=pixels - 1), body(FILE), f"videos[0] has {pixels} pixels")
    # Four frames are shown.
    large = video_file(clip(30, 640, 360))
    run(limited(max_length=900), body(large))
    too_large(limited(max_length=899), body(large), "have 921600 pixels together; 920576 are allowed")


@pytest.mark.parametrize("sides", [(128, 96), (1_600, 1_200)])
def test_a_stream_larger_than_its_header_says(limited: Any, sides: tuple[int, int]) -> None:
    # What the container claims; the stream itself holds the true sides.
    file = video_file(clip(2, *sides))
    lying = file.replace(b"".join(side.to_bytes(2, "big") for side in sides), b"\0\x10\0\x10")
    assert lying != file
    with pytest.raises((ValidationFailed, RequestTooLarge)):
        run(limited(max_image_pixels=300), body(lying))


def test_the_decoder_itself_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = video_file(clip(4, 640, 480))
    header = video_decoder.read_header(data, 4, 640 * 480)
    frames = BytesIO()
    video_decoder.write_frames(data, [0, 3], header, 640 * 480, frames)
    assert len(frames.getvalue()) == 2 * 480 * 640 * 3
    monkeypatch.setattr(video_decoder, "LEAST_BOUND", 640 * 480 - 1)
    with pytest.raises((ValueError, av.FFmpegError)):
        video_decoder.write_frames(data, [0, 3], header, 1, BytesIO())


def test_pixels_to_decode(limited: Any) -> None:
    # The last of thirty frames is shown.
    pixels = 30 * 128 * 96
    run(limited(max_video_pixels=pixels), body(FILE))
    words = f"{pixels} pixels to decode; {pixels - 1} are allowed"
    too_large(limited(max_video_pixels=pixels - 1), body(FILE), words)
    too_large(limited(max_video_pixels=2 * pixels - 1), body(FILE, FILE), f"{2 * pixels} pixels to decode")


def test_frames_that_cost_a_decoder_much_and_a_sender_nothing(step: Preprocessor) -> None:
    still = video_file([Image.new("RGB", (2_048, 2_048))] * 62, "libx264", rate=1_000, preset="ultrafast")
    before = cpu_of_decoders_s()
    too_large(step, body(still), f"{62 * 2_048**2} pixels to decode; 256000000 are allowed")
    assert len(still) < 32_000 and cpu_of_decoders_s() - before < 1


@pytest.mark.parametrize("samples", [1_000_000, 20_000_000, 2**32 - 1])
def test_an_index_larger_than_its_file(step: Preprocessor, samples: int) -> None:
    before, held = cpu_of_decoders_s(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((ValidationFailed, RequestTooLarge)):
        run(step, body(claiming(FILE, samples)))
    assert cpu_of_decoders_s() - before < 6
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held < 64 * 1024


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(release=RELEASE, max_video_cpu_s=60)
    monkeypatch.setattr("preprocess.video_files.MEMORY_BYTES", 128 << 20)
    before = cpu_of_decoders_s()
    with ExitStack() as decoders:
        VideoFile(FILE, 0, settings, decoders)
        with pytest.raises(ValidationFailed, match="Not a readable"):
            VideoFile(claiming(FILE, 20_000_000), 1, settings, decoders)
    assert cpu_of_decoders_s() - before < 2


def test_a_decoder_that_ends_before_it_has_read_the_file(step: Preprocessor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preprocess.video_files.MEMORY_BYTES", 1 << 20)
    refused_at(step, [data_url(FILE[:32] + bytes(3 << 20))], 0, kind="video_unreadable")
    assert psutil.Process().children() == []


def test_seconds_of_a_processor(limited: Any) -> None:
    run(limited(max_video_cpu_s=1), body(FILE))
    too_large(limited(max_video_cpu_s=1), body(claiming(FILE, 20_000_000)), "videos[0] takes a processor more than 1")


def test_no_decoder_outlives_its_request(step: Preprocessor, limited: Any) -> None:
    run(step, body(FILE, FILE))
    too_large(limited(max_length=128), body(FILE, FILE), "128 are allowed")
    refused_at(step, [data_url(FILE), data_url(FILE[:64])], 1, kind="video_unreadable")
    assert psutil.Process().children() == []


def test_a_file_of_one_frame_is_no_video(step: Preprocessor) -> None:
    refused_at(step, [data_url(video_file(clip(1, 64, 64)), "video/mp4")], 0, kind="video_too_short")


@pytest.mark.parametrize(
    "data",
    [
        b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n",
        b"ffconcat version 1.0\nfile /etc/passwd\n",
        FILE[: len(FILE) // 2],
        FILE[:64],
        b"\0\0\0\x18ftyp" + bytes(100),
        b"\x1aE\xdf\xa3" + bytes(100),
        file_of(noise(64, 64)),
        video_file(clip(4, 64, 64), "ffv1", "matroska"),
    ],
    ids=["playlist", "list of files", "half", "beginning", "no mp4", "no matroska", "png", "another codec"],
)
def test_what_is_no_video_file(step: Preprocessor, data: bytes) -> None:
    refused_at(step, [data_url(data, "video/mp4")], 0, kind="video_unreadable")


def test_damaged_frames(step: Preprocessor) -> None:
    middle = len(FILE) // 2
    damaged = FILE[: middle - 400] + bytes(800) + FILE[middle + 400 :]
    try:
        run(step, body(damaged))  # a decoder may conceal it
    except ValidationFailed as refused:
        assert refused.detail[0]["type"] == "video_unreadable"  # type: ignore[index]


@pytest.mark.parametrize(("codec", "kind"), [("mpeg4", "mp4"), ("libvpx", "webm")])
def test_damaged_files(step: Preprocessor, codec: str, kind: str) -> None:
    random = np.random.default_rng(7)
    good = video_file(clip(30, 128, 96), codec, kind)
    outcomes = set()
    for _ in range(20):
        damaged = bytearray(good)
        for place in random.integers(0, len(good), 12):
            damaged[place] = random.integers(256)
        try:
            run(step, body(bytes(damaged)))
            outcomes.add("answered")
        except ValidationFailed as refused:
            outcomes.add(refused.detail[0]["type"])  # type: ignore[index]
        except RequestTooLarge:
            outcomes.add("too large")
    assert "video_unreadable" in outcomes
    assert outcomes <= {"answered", "too large", "video_unreadable", "video_too_short", "video_ratio"}


def test_files_are_not_fetched(step: Preprocessor) -> None:
    refused_at(step, ["https://example.com/a.mp4"], 0, kind="image_url")
    refused_at(step, ["/etc/passwd.mp4"], 0, kind="image_base64")


def test_without_the_decoder_a_file_is_told_how_to_install_it(
    step: Preprocessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("preprocess.preprocessor.can_decode", lambda: False)
    with pytest.raises(ValidationFailed, match="pip install av"):
        run(step, body(FILE))
    refused_at(step, [data_url(FILE)], 0, kind="video_decoder")
    run(step, body(SMALL))


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
