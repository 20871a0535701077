"""Videos for the checks: frames that move, as pictures and as what a request holds."""

from __future__ import annotations

import struct
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


def video_file(
    frames: list[Image.Image], codec: str = "mpeg4", kind: str = "mp4", rate: int = 24, **options: str
) -> bytes:
    """The frames as a video file. options: the encoder's."""
    buffer = BytesIO()
    with av.open(buffer, "w", format=kind) as container:
        stream = container.add_stream(codec, rate=rate, options=options)
        stream.width, stream.height = frames[0].size
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_image(frame)))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def claiming(mp4: bytes, samples: int) -> bytes:
    """The file, whose index says that it holds so many samples of a byte in one chunk."""
    tables = {
        b"stsz": lambda body: struct.pack(">III", 0, 1, samples),
        b"stsc": lambda body: struct.pack(">IIIII", 0, 1, 1, samples, 1),
        b"stts": lambda body: struct.pack(">IIII", 0, 1, samples, 512),
        b"stco": lambda body: struct.pack(">II", 0, 1) + body[8:12],
    }
    made, place = b"", 0
    while place < len(mp4):
        length, kind = struct.unpack_from(">I4s", mp4, place)
        content = mp4[place + 8 : place + length]
        if kind in (b"moov", b"trak", b"mdia", b"minf", b"stbl"):
            content = claiming(content, samples)
        elif kind in tables:
            content = tables[kind](content)
        made += struct.pack(">I4s", 8 + len(content), kind) + content
        place += length
    return made
