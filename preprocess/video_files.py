"""Video files, with PyAV where it is installed: their header, and the frames that are shown, decoded.

What a file claims is checked before a frame is decoded, and what is decoded is bounded by the same limits, since a
container and the stream in it may contradict each other. Only MP4 and Matroska (WebM) are opened, as such, and only
codecs of the field: other formats of FFmpeg's are lists of further files, or cost what they like.
"""

from __future__ import annotations

import importlib.util
from io import BytesIO
from typing import Any

import numpy as np

from preprocess.errors import RequestTooLarge, ValidationFailed
from preprocess.image_references import LEAST_FRAMES, name_of
from preprocess.images import Bytes
from preprocess.settings import ImageMode, Settings

CODECS = frozenset({"h264", "hevc", "mpeg4", "vp8", "vp9", "av1"})
# What a decoder holds of a frame is whole blocks with a margin, a good deal more than a small picture itself.
MARGIN = 2
LEAST_BOUND = 1 << 20
NO_DECODER = "This server decodes no video files: send the frames. To have it decode them: pip install av"


def can_decode() -> bool:
    """Whether PyAV is installed."""
    return importlib.util.find_spec("av") is not None


class VideoFile:
    """One file, at `index` of the request's videos: read to its end, without decoding."""

    def __init__(self, data: bytes, index: int, settings: Settings) -> None:
        """Raises RequestTooLarge (413) over a limit, ValidationFailed (422) for what cannot be read."""
        self._data, self._index, self._max_pixels = data, index, settings.max_image_pixels
        self.size, self.frames_per_second, self.count = self._header(settings.max_video_frames)
        if self.size[0] * self.size[1] > settings.max_image_pixels:
            pixels = f"{self.size[0] * self.size[1]} pixels; {settings.max_image_pixels} are allowed."
            raise RequestTooLarge(f"{name_of(index, ('videos',))} has {pixels}")
        if self.count < LEAST_FRAMES:
            message = "Video should have two frames at least: send one as an image"
            raise ValidationFailed.at(["body", "videos", index], message, "video_too_short")

    def pixels(self, shown: int) -> int:
        """Pixels that are held when `shown` frames are: the others are dropped one by one."""
        return self.size[0] * self.size[1] * shown

    def read(self, frames: tuple[int, ...], mode: ImageMode) -> Bytes:
        """The frames at these places, in order: [n, height, width, 3]. A video has no alpha or EXIF for `mode`."""
        import av

        shown = []
        try:
            with self._open() as container:
                for place, frame in enumerate(container.decode(video=0)):
                    if (frame.width, frame.height) != self.size:
                        raise self._unreadable()
                    if place in frames:
                        shown.append(frame.to_ndarray(format="rgb24"))
                    if place >= frames[-1]:
                        break
        except (av.FFmpegError, ValueError):
            raise self._unreadable() from None
        if len(shown) != len(frames):
            raise self._unreadable()
        return np.stack(shown)

    def _header(self, most_frames: int) -> tuple[tuple[int, int], float, int]:
        """Width and height, frames a second, and frames, counted to one more than `most_frames`."""
        import av

        try:
            with self._open() as container:
                stream = container.streams.video[0]
                if stream.codec_context.codec.canonical_name not in CODECS:
                    raise self._unreadable()
                count = 0
                for packet in container.demux(stream):
                    # The last one is empty and flushes the decoder. Headers often hold no count, or a wrong one.
                    count += packet.size > 0
                    if count > most_frames:
                        break
                size, rate = (stream.width, stream.height), float(stream.average_rate or 0)
        except (av.FFmpegError, ValueError, IndexError):
            raise self._unreadable() from None
        if min(size) < 1 or rate <= 0:
            raise self._unreadable()
        return size, rate, count

    def _open(self) -> Any:
        import av

        if self._data[4:8] == b"ftyp":
            kind = "mp4"
        elif self._data[:4] == b"\x1aE\xdf\xa3":
            kind = "matroska"
        else:
            raise self._unreadable()
        bounds = {"max_pixels": str(max(MARGIN * self._max_pixels, LEAST_BOUND)), "threads": "1"}
        container = av.open(
            BytesIO(self._data), format=kind, metadata_errors="ignore", options=bounds, stream_options=[bounds]
        )
        for stream in container.streams.video:
            stream.codec_context.options = bounds
        return container

    def _unreadable(self) -> ValidationFailed:
        message = "Not a readable MP4 or WebM video (H.264, H.265, MPEG-4, VP8, VP9, AV1)"
        return ValidationFailed.at(["body", "videos", self._index], message, "video_unreadable")
