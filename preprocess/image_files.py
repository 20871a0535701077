"""From the bytes of an image file to its size, which the header says, and to upright 8-bit RGB, which decoding costs.

PNG, JPEG and WebP, the first frame, with Pillow.
"""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Any

import numpy as np
from PIL import ExifTags, Image, ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from preprocess.image_headers import Format, Unreadable, format_of, webp_size
from preprocess.settings import ImageMode

# What Pillow raises for files that are broken in one way or another.
_BROKEN = (OSError, SyntaxError, ValueError, IndexError, TypeError, KeyError, EOFError, struct.error, zlib.error)

_OPENERS: dict[Format, type[ImageFile.ImageFile]] = {
    "PNG": PngImageFile,
    "JPEG": JpegImageFile,
    "WEBP": WebPImageFile,
}

_TRANSPOSED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def read_size(data: bytes) -> tuple[int, int]:
    """Width and height in pixels as stored, before any EXIF rotation; no pixel is decoded. Raises Unreadable."""
    # Pillow's WebP reader reserves the whole canvas when it opens a file, so that header is read here.
    kind = format_of(data)
    width, height = webp_size(data) if kind == "WEBP" else _open(data, kind).size
    if width < 1 or height < 1:
        raise Unreadable
    return width, height


def read_rgb(data: bytes, mode: ImageMode) -> Image.Image:
    """The picture in mode RGB. Raises Unreadable.

    faithful: EXIF orientation applied, alpha composited on white, 16 bits scaled to 8. release: as the publisher's
    plain conversion has it, which clips 16 bits, drops alpha and leaves the orientation. Both agree on upright,
    opaque 8-bit pictures.
    """
    image = _open(data, format_of(data))
    try:
        image.load()
        return _faithful(image) if mode == "faithful" else image.convert("RGB")
    except _BROKEN:
        raise Unreadable from None


def _open(data: bytes, kind: Format) -> Image.Image:
    # Not Image.open: it warns of sizes by a bound of its own, and ours are checked by the caller.
    try:
        return _OPENERS[kind](BytesIO(data))
    except _BROKEN:
        raise Unreadable from None


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
