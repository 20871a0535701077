"""Video files, where PyAV is installed: their header, and the frames that are shown, from a process of their own.

What a file claims is checked before a frame is decoded, and what is decoded is bounded by the same limits, since a
container and the stream in it may contradict each other.
"""

from __future__ import annotations

import importlib.util
import json
import math
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import numpy as np

from preprocess import video_decoder
from preprocess.errors import RequestTooLarge, ValidationFailed
from preprocess.image_references import LEAST_FRAMES, name_of
from preprocess.patches import Bytes
from preprocess.settings import ImageMode, Settings

# A decoder holds some twenty frames, of half the pixels that a request may show: half of this, at ten bits a sample.
MEMORY_BYTES = 1 << 30
NO_DECODER = "This server decodes no video files: send the frames. To have it decode them: pip install av"


def can_decode() -> bool:
    """Whether PyAV is installed."""
    return importlib.util.find_spec("av") is not None


class VideoFile:
    """One file, at `index` of the request's videos: read to its end, without decoding."""

    def __init__(self, data: bytes, index: int, settings: Settings, decoders: ExitStack) -> None:
        """The file's decoder lives until `decoders` is closed.

        Raises RequestTooLarge (413) over a limit, ValidationFailed (422) for what cannot be read.
        """
        self._index, self._cpu_s = index, settings.max_video_cpu_s
        if data[4:8] != video_decoder.MP4_BRAND and not data.startswith(video_decoder.MATROSKA):
            raise self._unreadable()
        self._decoder = _start(settings)
        decoders.callback(_end, self._decoder)
        self._send(len(data).to_bytes(8, "big"), data)
        self.size, self.frames_per_second, self.count = self._header()
        if self.size[0] * self.size[1] > settings.max_image_pixels:
            pixels = f"{self.size[0] * self.size[1]} pixels; {settings.max_image_pixels} are allowed."
            raise RequestTooLarge(f"{name_of(index, ('videos',))} has {pixels}")
        if self.count < LEAST_FRAMES:
            message = "Video should have two frames at least: send one as an image"
            raise ValidationFailed.at(["body", "videos", index], message, "video_too_short")

    def pixels(self, shown: int) -> int:
        """Pixels that are held when `shown` frames are: the others are dropped one by one."""
        return self.size[0] * self.size[1] * shown

    def decoded_pixels(self, last: int) -> int:
        """Pixels that are decoded where the last frame that is shown stands at `last`."""
        return self.size[0] * self.size[1] * (last + 1)

    def read(self, frames: tuple[int, ...], mode: ImageMode) -> Bytes:
        """The frames at these places, in order: [n, height, width, 3]; once. A video has no alpha or EXIF for `mode`.

        Raises RequestTooLarge, ValidationFailed.
        """
        shape = (len(frames), self.size[1], self.size[0], 3)
        self._send(json.dumps(frames).encode(), b"\n")
        content = bytearray(_pipe(self._decoder.stdout).read())
        if self._decoder.wait() or len(content) != math.prod(shape):
            raise self._refused()
        return np.frombuffer(content, np.uint8).reshape(shape)

    def _header(self) -> tuple[tuple[int, int], float, int]:
        line = _pipe(self._decoder.stdout).readline()
        if not line:
            raise self._refused()
        told = json.loads(line)
        if min(told["width"], told["height"]) < 1 or told["frames_per_second"] <= 0:
            raise self._unreadable()
        return (told["width"], told["height"]), told["frames_per_second"], told["frames"]

    def _send(self, *parts: bytes) -> None:
        to = _pipe(self._decoder.stdin)
        try:
            for part in parts:
                to.write(part)
            to.flush()
        except BrokenPipeError:
            raise self._refused() from None

    def _refused(self) -> RequestTooLarge | ValidationFailed:
        """Why the decoder has ended."""
        if self._decoder.wait() == -signal.SIGXCPU:
            name = name_of(self._index, ("videos",))
            return RequestTooLarge(f"{name} takes a processor more than {self._cpu_s} seconds, as many as are allowed.")
        return self._unreadable()

    def _unreadable(self) -> ValidationFailed:
        message = "Not a readable MP4 or WebM video (H.264, H.265, MPEG-4, VP8, VP9, AV1)"
        return ValidationFailed.at(["body", "videos", self._index], message, "video_unreadable")


def _start(settings: Settings) -> subprocess.Popen[bytes]:
    bounds = {
        "memory_bytes": MEMORY_BYTES,
        "cpu_s": settings.max_video_cpu_s,
        "max_frames": settings.max_video_frames,
        "max_pixels": settings.max_image_pixels,
    }
    command = [sys.executable, "-I", str(Path(video_decoder.__file__)), json.dumps(bounds)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _end(decoder: subprocess.Popen[bytes]) -> None:
    """Close the pipes and wait: left early, it ends by itself, since nothing more can come from here."""
    with suppress(BrokenPipeError):
        decoder.__exit__(None, None, None)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
