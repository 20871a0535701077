"""The videos of a request, under the limits of images, to the patches that the extra makes of them.

The publisher's processor shows two frames of each second, and four at least. The others are not decoded, or dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from preprocess.errors import RequestTooLarge, ValidationFailed
from preprocess.image_references import check_file_size, check_files_size
from preprocess.images import MAX_SIDES_RATIO, Images, Ints
from preprocess.patches import PATCH_BYTES, Bytes
from preprocess.settings import ImageMode, Settings
from preprocess.video_files import VideoFile
from preprocess.video_frames import Frames
from preprocess.video_processor import BadSides, Clip, VideoProcessor


class Videos:
    """The videos of one request, checked by their headers; `patches` decodes the frames that are shown."""

    def __init__(
        self,
        videos: Sequence[list[bytes] | bytes],
        beside: Images,
        processor: VideoProcessor,
        settings: Settings,
        decoders: ExitStack,
    ) -> None:
        """Each video is the files of its frames, or a file, whose decoder lives until `decoders` is closed.
        `beside`: the request's images, which share its limits.

        Raises RequestTooLarge (413) over a limit, ValidationFailed (422) for what is no video.
        """
        _check_files(videos, beside, settings)
        self._processor = processor
        self._videos = [
            VideoFile(video, index, settings, decoders) if isinstance(video, bytes) else Frames(video, index, settings)
            for index, video in enumerate(videos)
        ]
        frames = sum(video.count for video in self._videos)
        if frames > settings.max_video_frames:
            raise RequestTooLarge(f"The videos have {frames} frames; {settings.max_video_frames} are allowed.")
        self.clips = [self._clip(index, video) for index, video in enumerate(self._videos)]
        shown = list(zip(self._videos, self.clips, strict=True))
        decoded = sum(video.decoded_pixels(clip.frames[-1]) for video, clip in shown if isinstance(video, VideoFile))
        if decoded > settings.max_video_pixels:
            allowed = f"{decoded} pixels to decode; {settings.max_video_pixels} are allowed."
            raise RequestTooLarge(f"The video files have {allowed}")
        pixels = beside.pixels + sum(video.pixels(len(clip.frames)) for video, clip in shown)
        if pixels > settings.pixels_together:
            together = f"{pixels} pixels together; {settings.pixels_together} are allowed."
            raise RequestTooLarge(f"The images and frames have {together}")
        size = beside.patches_bytes + PATCH_BYTES * sum(clip.patches for clip in self.clips)
        if settings.max_patches_bytes is not None and size > settings.max_patches_bytes:
            raise RequestTooLarge(f"The media make patches of {size} bytes; {settings.max_patches_bytes} are allowed.")

    def patches(self, mode: ImageMode) -> list[tuple[Bytes, Ints]]:
        """Of each video its patches [P, 768] and its grid (frames, height, width), an odd last frame shown twice."""
        shown = zip(self._videos, self.clips, strict=True)
        return [self._processor.patches(video.read(clip.frames, mode)) for video, clip in shown]

    def _clip(self, index: int, video: Frames | VideoFile) -> Clip:
        try:
            return self._processor.clip(video.count, video.frames_per_second, *video.size)
        except BadSides:
            message = f"One side of the frames is over {MAX_SIDES_RATIO} times the other"
            raise ValidationFailed.at(["body", "videos", index], message, "video_ratio") from None


def _check_files(videos: Sequence[list[bytes] | bytes], beside: Images, settings: Settings) -> None:
    count = len(beside.files) + len(videos)
    if count > settings.images_allowed:
        message = f"The request has {count} images and videos; {settings.images_allowed} are allowed."
        raise RequestTooLarge(message)
    files = list(beside.files)
    for index, video in enumerate(videos):
        if isinstance(video, bytes):
            files.append(video)
            continue
        for place, data in enumerate(video):
            check_file_size(len(data), place, settings, ("videos", index))
        files += video
    check_files_size(files, settings)
