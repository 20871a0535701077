"""The optional extra for videos: transformers' own video processor, which samples, resizes and cuts their frames.

It needs torch and torchvision, which this step is otherwise free of: nothing here is imported before a server is told
to read videos. Source: transformers 5.24, `Qwen3VLVideoProcessor`, as the publisher's loader makes it of a release.
What differs: frames stay bytes, as those of images do; the model step normalises both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from preprocess.images import ProcessorError
from preprocess.patches import MERGE, PATCH, PATCH_BYTES

# Frames that one group of patches spans.
GROUP = 2
INSTALL = "pip install -r requirements/video.txt"

_FIXED = {
    "patch_size": PATCH,
    "merge_size": MERGE,
    "temporal_patch_size": GROUP,
    "do_resize": True,
    "do_sample_frames": True,
    "num_frames": None,
    "do_rescale": True,
    "do_normalize": True,
    "rescale_factor": 1 / 255,
    "image_mean": (0.5,) * 3,
    "image_std": (0.5,) * 3,
}

Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


class BadSides(Exception):
    """One side of the frames is so much longer than the other that the processor refuses them."""


@dataclass(frozen=True, slots=True)
class Clip:
    """What a video becomes in a prompt: the frames that are shown, and a group of tokens for each two of them."""

    frames: tuple[int, ...]
    timestamps: tuple[str, ...]
    """The text before each group."""
    group_patches: int
    """Patches of one frame of the groups."""

    @property
    def patches(self) -> int:
        return len(self.timestamps) * GROUP * self.group_patches


class VideoProcessor:
    """The processor of one release."""

    def __init__(self, processor: Any, metadata: Any) -> None:
        self._processor, self._metadata = processor, metadata

    @classmethod
    def load(cls, release: Path) -> Self:
        """Raises ProcessorError where the extra is missing, or the release wants its videos cut in other patches."""
        try:
            import torchvision  # noqa: F401
            from transformers import AutoVideoProcessor
            from transformers.video_utils import VideoMetadata
        except (ImportError, OSError, RuntimeError) as error:
            # The latter two: a torchvision that was built for another torch.
            raise ProcessorError(f"CLEF_VIDEOS: {INSTALL} brings what reads videos; here is {error!r}") from error
        try:
            processor = AutoVideoProcessor.from_pretrained(release, local_files_only=True)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ProcessorError(f"{release} holds no video processor: {error!r}") from error
        for key, expected in _FIXED.items():
            if getattr(processor, key, None) != expected:
                raise ProcessorError(f"{release}: a video's {key} is not {expected}, and nothing else is served.")
        return cls(processor, VideoMetadata)

    def clip(self, count: int, frames_per_second: float, width: int, height: int) -> Clip:
        """What a video of `count` frames, at least two, becomes. Raises BadSides."""
        metadata = self._metadata(total_num_frames=count, fps=frames_per_second)
        frames = tuple(self._processor.sample_frames(metadata).tolist())
        try:
            patches = self._processor.get_num_of_video_patches(len(frames), height, width)
        except ValueError as error:
            raise BadSides from error
        timestamps = _timestamps(frames, frames_per_second)
        return Clip(frames, timestamps, patches // len(timestamps))

    def patches(self, frames: Bytes) -> tuple[Bytes, Ints]:
        """The patches [P, 768] of a clip's frames [n, height, width, 3], and its grid [1, 3] (frames, height, width).

        P runs over the groups, within one over its two frames, and within a frame as an image's patches do.
        """
        import torch

        made = self._processor(
            videos=[torch.from_numpy(frames)],
            input_data_format="channels_last",
            do_sample_frames=False,
            do_rescale=False,
            do_normalize=False,
            cap_pixels_per_frame=bool(self._processor.cap_pixels_per_frame),
            return_tensors="pt",
        )
        groups, height, width = made["video_grid_thw"][0].tolist()
        pairs = made["pixel_values_videos"].numpy().reshape(groups, height * width, 3, GROUP, PATCH * PATCH)
        patches = np.ascontiguousarray(pairs.transpose(0, 3, 1, 2, 4)).reshape(-1, PATCH_BYTES)
        return patches, np.array([[groups * GROUP, height, width]], dtype=np.int32)


def _timestamps(frames: tuple[int, ...], frames_per_second: float) -> tuple[str, ...]:
    """For each group the middle of its frames' times; an odd last frame is a group with itself."""
    times = [frame / frames_per_second for frame in frames]
    times += times[-1:] * (len(times) % GROUP)
    middles = [(first + last) / 2 for first, last in zip(times[::GROUP], times[1::GROUP], strict=True)]
    return tuple(f"<{middle:.1f} seconds>" for middle in middles)
