"""Videos for the checks: frames that move, as pictures and as what a request holds."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import av
import numpy as np
from PIL import Image

from tests.preprocess.pictures import data_url, file_of, noise

QUESTIONS = {
    "moving": {"type": "noul", "instructions": "Does anything move?"},
    "what": {"type": "choice", "criteria": {"car": "A car", "bird": None}},
    "speed": {"type": "score", "criteria": ["slow", "fast"]},
}


def clip(frames: int, width: int, height: int, seed: int = 0) -> list[Image.Image]:
    """A picture that moves to the left by three pixels a frame."""
    first = np.asarray(noise(width, height, seed))
    return [Image.fromarray(np.roll(first, -3 * frame, axis=1)) for frame in range(frames)]


def references(frames: list[Image.Image]) -> list[str]:
    return [data_url(file_of(frame)) for frame in frames]


def body(*videos: list[Image.Image] | bytes, **fields: Any) -> dict[str, Any]:
    """A request that shows these videos: frames, or a file."""
    shown = [data_url(video, "video/mp4") if isinstance(video, bytes) else references(video) for video in videos]
    return {"state": "A camera at a crossing.", "questions": QUESTIONS, "videos": shown, **fields}


def video_file(frames: list[Image.Image], codec: str = "mpeg4", kind: str = "mp4", rate: int = 24) -> bytes:
    """The frames as a video file."""
    buffer = BytesIO()
    with av.open(buffer, "w", format=kind) as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height = frames[0].size
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_image(frame)))
        container.mux(stream.encode(None))
    return buffer.getvalue()
