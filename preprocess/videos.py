"""The videos of a request: lists of frames, under the limits of images, to the patches that the extra makes of them.

The publisher's processor takes a list of frames as 24 a second and shows two of each second, and four at least. Here
the others are looked at by their headers alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from preprocess.errors import RequestTooLarge, ValidationFailed
from preprocess.image_files import read_rgb
from preprocess.image_headers import Unreadable
from preprocess.image_references import Within, check_file_size, check_files_size
from preprocess.images import MAX_SIDES_RATIO, PATCH_BYTES, Bytes, Images, Ints, header_size, unreadable
from preprocess.settings import ImageMode, Settings
from preprocess.video_processor import BadSides, Clip, VideoProcessor

FRAMES_PER_SECOND = 24


class Videos:
    """The videos of one request, checked by the headers of their frames; `patches` decodes those that are shown."""

    def __init__(
        self, videos: Sequence[list[bytes]], beside: Images, processor: VideoProcessor, settings: Settings
    ) -> None:
        """`beside`: the request's images, which the limits on bytes and pixels take together with the frames.

        Raises RequestTooLarge (413) over a limit, ValidationFailed (422) for what is no video.
        """
        self._videos, self._processor = videos, processor
        count = len(beside.files) + len(videos)
        if count > settings.images_allowed:
            message = f"The request has {count} images and videos; {settings.images_allowed} are allowed."
            raise RequestTooLarge(message)
        for index, frames in enumerate(videos):
            for place, data in enumerate(frames):
                check_file_size(len(data), place, settings, _within(index))
        check_files_size([*beside.files, *(data for frames in videos for data in frames)], settings)
        self._sizes = [_size(frames, index, settings) for index, frames in enumerate(videos)]
        shown = sum(width * height * len(video) for (width, height), video in zip(self._sizes, videos, strict=True))
        if beside.pixels + shown > settings.pixels_together:
            together = f"{beside.pixels + shown} pixels together; {settings.pixels_together} are allowed."
            raise RequestTooLarge(f"The images and frames have {together}")
        self.clips = [self._clip(index, len(frames)) for index, frames in enumerate(videos)]
        size = beside.patches_bytes + PATCH_BYTES * sum(clip.patches for clip in self.clips)
        if settings.max_patches_bytes is not None and size > settings.max_patches_bytes:
            raise RequestTooLarge(f"The media make patches of {size} bytes; {settings.max_patches_bytes} are allowed.")

    def patches(self, mode: ImageMode) -> list[tuple[Bytes, Ints]]:
        """Of each video its patches [P, 768] and a grid (2, height, width) for each two of its shown frames."""
        return [self._processor.patches(self._shown(index, clip, mode)) for index, clip in enumerate(self.clips)]

    def _clip(self, index: int, count: int) -> Clip:
        try:
            return self._processor.clip(count, FRAMES_PER_SECOND, *self._sizes[index])
        except BadSides:
            message = f"One side of the frames is over {MAX_SIDES_RATIO} times the other"
            raise ValidationFailed.at(["body", *_within(index)], message, "video_ratio") from None

    def _shown(self, index: int, clip: Clip, mode: ImageMode) -> Bytes:
        """[n, height, width, 3]"""
        frames: list[Bytes] = []
        for place in clip.frames:
            try:
                frame = np.asarray(read_rgb(self._videos[index][place], mode))
            except Unreadable:
                raise unreadable(place, _within(index)) from None
            if sorted(frame.shape[:2]) != sorted(self._sizes[index]):
                raise unreadable(place, _within(index))
            if frames and frame.shape != frames[0].shape:
                raise _unequal(index, place)
            frames.append(frame)
        return np.stack(frames)


def _size(frames: list[bytes], index: int, settings: Settings) -> tuple[int, int]:
    sizes = [header_size(data, place, settings, _within(index)) for place, data in enumerate(frames)]
    for place, size in enumerate(sizes):
        if sorted(size) != sorted(sizes[0]):
            raise _unequal(index, place)
    return sizes[0]


def _within(index: int) -> Within:
    return "videos", index


def _unequal(index: int, place: int) -> ValidationFailed:
    message = "The frames of a video should all have one size"
    return ValidationFailed.at(["body", *_within(index), place], message, "video_frames")
