"""Pictures for tests: noise in every mode, files of every format, and headers that promise too much."""

from __future__ import annotations

import base64
import struct
import zlib
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    """An RGB picture of these sides; smooth in part, so that resizing has something to keep."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3)).repeat(8, 0).repeat(8, 1)[:height, :width]
    fine = random.integers(-40, 40, (height, width, 3))
    return Image.fromarray(np.clip(coarse + fine, 0, 255).astype(np.uint8))


def file_of(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def rotated(image: Image.Image, orientation: int, kind: str = "JPEG", **options: Any) -> bytes:
    """The picture's file with an EXIF orientation."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return file_of(image, kind, exif=exif, **options)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_of_zeros(width: int, height: int) -> bytes:
    """A whole, valid PNG of one bit a pixel: 20,000 x 20,000 is some 49 kB."""
    packed = zlib.compressobj(9)
    row = bytes(1 + (width + 7) // 8)
    data = b"".join(packed.compress(row) for _ in range(height)) + packed.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def jpeg_of_size(width: int, height: int) -> bytes:
    """A JPEG whose header says another size than its data."""
    data = bytearray(file_of(noise(16, 16), "JPEG"))
    place = data.index(b"\xff\xc0")
    data[place + 5 : place + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def webp_of_size(width: int, height: int) -> bytes:
    """A WebP whose canvas is of another size than its picture."""
    data = bytearray(rotated(noise(16, 16), 1, "WEBP"))
    assert data[12:16] == b"VP8X"
    data[24:30] = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return bytes(data)


def jpeg_of_scans(scans: int) -> bytes:
    """A progressive JPEG of 16 x 16 whose last scan comes many times: each costs the decoder a pass over all pixels."""
    data = file_of(noise(16, 16), "JPEG", progressive=True)
    more = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + more * (scans - data.count(b"\xff\xda")) + data[-2:]


def jpeg_of_segments(segment: bytes, segments: int) -> bytes:
    """A JPEG with many segments of a few bytes each."""
    data = file_of(noise(16, 16), "JPEG")
    place = 4 + int.from_bytes(data[4:6], "big")
    return data[:place] + segment * segments + data[place:]


def png_of_profiles(profiles: int) -> bytes:
    """A PNG with many colour profiles: a kilobyte each, a megabyte inflated."""
    return _png_with(_chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(1 << 20), 9)) * profiles)


def png_of_chunks(chunks: int) -> bytes:
    """A PNG with many empty chunks of no known kind: twelve bytes each."""
    return _png_with(_chunk(b"teSt", b"") * chunks)


def _png_with(chunks: bytes) -> bytes:
    data = file_of(noise(16, 16))
    header = data.index(b"IDAT") - 4
    return data[:header] + chunks + data[header:]
