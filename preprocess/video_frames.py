"""A video as the list of its frames, each an image file: looked at by their headers, and decoded where they are shown.

The publisher's processor takes such a list as 24 frames a second.
"""

from __future__ import annotations

import numpy as np

from preprocess.errors import ValidationFailed
from preprocess.image_files import read_rgb
from preprocess.image_headers import Unreadable
from preprocess.image_references import Within
from preprocess.images import header_size, unreadable
from preprocess.patches import Bytes
from preprocess.settings import ImageMode, Settings

FRAMES_PER_SECOND = 24.0


class Frames:
    """The frames, at `index` of the request's videos. They have one size, each in one of its two orientations."""

    def __init__(self, files: list[bytes], index: int, settings: Settings) -> None:
        """Raises RequestTooLarge (413) over a limit, ValidationFailed (422) for what cannot be read."""
        self._files = files
        self._within: Within = ("videos", index)
        sizes = [header_size(data, place, settings, self._within) for place, data in enumerate(files)]
        self.size, self.frames_per_second, self.count = sizes[0], FRAMES_PER_SECOND, len(files)
        for place, size in enumerate(sizes):
            if sorted(size) != sorted(self.size):
                raise self._unequal(place)

    def pixels(self, shown: int) -> int:
        """Pixels of all frames, however many are shown: a client that sends them means them to be looked at."""
        return self.size[0] * self.size[1] * self.count

    def read(self, frames: tuple[int, ...], mode: ImageMode) -> Bytes:
        """The frames at these places, in order: [n, height, width, 3]."""
        shown: list[Bytes] = []
        for place in frames:
            try:
                frame = np.asarray(read_rgb(self._files[place], mode))
            except Unreadable:
                raise unreadable(place, self._within) from None
            if sorted(frame.shape[:2]) != sorted(self.size):
                raise unreadable(place, self._within)
            if shown and frame.shape != shown[0].shape:
                raise self._unequal(place)
            shown.append(frame)
        return np.stack(shown)

    def _unequal(self, place: int) -> ValidationFailed:
        message = "The frames of a video should all have one size"
        return ValidationFailed.at(["body", *self._within, place], message, "video_frames")
