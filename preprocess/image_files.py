"""From the bytes of an image file to its size, which the header says, and to upright 8-bit RGB, which decoding costs.

PNG, JPEG and WebP, the first frame, with Pillow. The format is what the bytes say, whatever a data URL calls it.
"""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Any

import numpy as np
from PIL import ExifTags, Image
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from preprocess.settings import ImageMode

# What Pillow raises for files that are broken in one way or another.
_BROKEN = (OSError, SyntaxError, ValueError, IndexError, TypeError, KeyError, EOFError, struct.error, zlib.error)

_TRANSPOSED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class Unreadable(Exception):
    """The bytes are no image that this server reads."""


def read_size(data: bytes) -> tuple[int, int]:
    """Width and height in pixels as stored, before any EXIF rotation; no pixel is decoded. Raises Unreadable."""
    # Pillow's WebP reader reserves the whole canvas when it opens a file, so that header is read here.
    width, height = _webp_size(data) if _is_webp(data) else _open(data).size
    if width < 1 or height < 1:
        raise Unreadable
    return width, height


def read_rgb(data: bytes, mode: ImageMode) -> Image.Image:
    """The picture in mode RGB. Raises Unreadable.

    faithful: EXIF orientation applied, alpha composited on white, 16 bits scaled to 8. release: as the publisher's
    plain conversion has it, which clips 16 bits, drops alpha and leaves the orientation. Both agree on upright,
    opaque 8-bit pictures.
    """
    image = _open(data)
    try:
        image.load()
        return _faithful(image) if mode == "faithful" else image.convert("RGB")
    except _BROKEN:
        raise Unreadable from None


def _open(data: bytes) -> Image.Image:
    # Not Image.open: it warns of sizes by a bound of its own, and ours are checked by the caller.
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return PngImageFile(BytesIO(data))
        if data.startswith(b"\xff\xd8\xff"):
            return JpegImageFile(BytesIO(data))
        if _is_webp(data):
            return WebPImageFile(BytesIO(data))
    except _BROKEN:
        raise Unreadable from None
    raise Unreadable


def _is_webp(data: bytes) -> bool:
    return data[:4] == b"RIFF" and data[8:12] == b"WEBP"


def _webp_size(data: bytes) -> tuple[int, int]:
    """As in Google's WebP container specification (RFC 9649, section 2.7)."""
    kind, header = data[12:16], data[20:30]
    if len(header) < 10:
        raise Unreadable
    if kind == b"VP8X":
        return int.from_bytes(header[4:7], "little") + 1, int.from_bytes(header[7:10], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(header[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", header[6:10])
        return width & 0x3FFF, height & 0x3FFF
    raise Unreadable


def _faithful(image: Image.Image) -> Image.Image:
    orientation = _orientation(image)
    if image.mode == "I;16":
        image = _eight_bits(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    image = image.convert("RGB")
    return image.transpose(_TRANSPOSED[orientation]) if orientation in _TRANSPOSED else image


def _orientation(image: Image.Image) -> Any:
    try:
        return image.getexif().get(ExifTags.Base.Orientation)
    except _BROKEN:
        # A picture is not refused for its metadata.
        return None


def _eight_bits(image: Image.Image) -> Image.Image:
    """16-bit grey to 8 bits, white to white; a value that the file declares transparent stays so."""
    grey = np.asarray(image)
    scaled = Image.fromarray(((np.arange(65_536) * 255 + 32_767) // 65_535).astype(np.uint8)[grey])
    clear = image.info.get("transparency")
    if clear is None:
        return scaled
    alpha = np.where(grey == clear, 0, 255).astype(np.uint8)
    return Image.merge("LA", (scaled, Image.fromarray(alpha)))
