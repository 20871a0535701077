"""A program that reads one video file with PyAV, in a process of its own: what a file makes of it, stays in it.

A few bytes of an MP4 may claim an index of gigabytes, and FFmpeg believes them; frames that say nothing new cost a
decoder as much as any. So the kernel bounds the memory and the time of this process, and ends it where they run out.
Only MP4 and Matroska (WebM) are opened, as such, and only codecs of the field: other formats of FFmpeg's are lists of
further files, or cost what they like.

Run as `python -I video_decoder.py BOUNDS`, BOUNDS a JSON object. To standard input: the file's length in 8 bytes, the
file; from standard output then a line of JSON, its `Header`. To standard input next, a JSON array of places: from
standard output the frames that stand there, RGB, row after row; or nothing more, and it ends. Any other end than 0 is a
file that cannot be read.
"""

from __future__ import annotations

import json
import resource
import sys
from io import BytesIO
from typing import Any

MATROSKA, MP4_BRAND = b"\x1aE\xdf\xa3", b"ftyp"
CODECS = frozenset({"h264", "hevc", "mpeg4", "vp8", "vp9", "av1"})
# What a decoder holds of a frame is whole blocks with a margin, a good deal more than a small picture itself.
MARGIN = 2
LEAST_BOUND = 1 << 20


def main(bounds: dict[str, int]) -> None:
    """Bounds: memory_bytes, cpu_s, max_frames to be counted, max_pixels of a frame."""
    for kind, most in (
        (resource.RLIMIT_DATA, bounds["memory_bytes"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    # The first ends it by SIGXCPU, which says why.
    resource.setrlimit(resource.RLIMIT_CPU, (bounds["cpu_s"], bounds["cpu_s"] + 1))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    data = source.read(int.from_bytes(source.read(8), "big"))
    header = read_header(data, bounds["max_frames"], bounds["max_pixels"])
    sink.write(json.dumps(header).encode() + b"\n")
    sink.flush()
    if places := source.readline():
        write_frames(data, json.loads(places), header, bounds["max_pixels"], sink)
        sink.flush()


def read_header(data: bytes, max_frames: int, max_pixels: int) -> dict[str, Any]:
    """width, height, frames_per_second, and frames: counted to one more than `max_frames`, none decoded."""
    with _opened(data, max_pixels) as container:
        stream = container.streams.video[0]
        if stream.codec_context.codec.canonical_name not in CODECS:
            raise ValueError("another codec")
        frames = 0
        for packet in container.demux(stream):
            # The last one is empty and flushes the decoder. Headers often hold no count, or a wrong one.
            frames += packet.size > 0
            if frames > max_frames:
                break
        header = {"width": stream.width, "height": stream.height, "frames": frames}
        return header | {"frames_per_second": float(stream.average_rate or 0)}


def write_frames(data: bytes, places: list[int], header: dict[str, Any], max_pixels: int, sink: Any) -> None:
    """The frames at these places, in order, each of the header's size; none after the last is decoded."""
    size = header["width"], header["height"]
    with _opened(data, max_pixels) as container:
        for place, frame in enumerate(container.decode(video=0)):
            if (frame.width, frame.height) != size:
                raise ValueError("another size than the header's")
            if place in places:
                plane = frame.reformat(format="rgb24", threads=1).planes[0]
                rows = memoryview(plane)
                for start in range(0, size[1] * plane.line_size, plane.line_size):
                    sink.write(rows[start : start + 3 * size[0]])
            if place >= places[-1]:
                break


def _opened(data: bytes, max_pixels: int) -> Any:
    import av

    kind = "matroska" if data.startswith(MATROSKA) else "mp4"
    bounds = {"max_pixels": str(max(MARGIN * max_pixels, LEAST_BOUND)), "threads": "1"}
    container = av.open(BytesIO(data), format=kind, metadata_errors="ignore", options=bounds, stream_options=[bounds])
    for stream in container.streams.video:
        stream.codec_context.options = bounds
    return container


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
