"""What an image file's bytes say of it before any library opens it: its format, a WebP's size, and what it would cost.

A decoder's work is not bounded by a file's size and its picture's alone: a progressive JPEG may ask for a pass over all
pixels with every thirty bytes, a PNG may bring thousands of colour profiles of a megabyte each.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Literal

Format = Literal["PNG", "JPEG", "WEBP"]

# Ordinary files have ten scans, one profile, and some hundreds of parts.
MAX_JPEG_SCANS = 50
MAX_PARTS = 10_000

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# The markers of JPEG (ITU-T T.81, table B.1), by their second byte: two, those that a length follows, and the end of
# coded pixels, which is any marker but a restart.
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9
_WITH_LENGTH = frozenset({*range(0xC0, 0xD0), *range(0xDA, 0xF0), 0xFE}) - {0xC8}
_AFTER_PIXELS = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")


class Unreadable(Exception):
    """The bytes are no image that this server reads."""


def format_of(data: bytes) -> Format:
    """The format, whatever a data URL calls it. Raises Unreadable, also for a file made to cost more than it is."""
    if data.startswith(_PNG_SIGNATURE):
        _bound_png(data)
        return "PNG"
    if data.startswith(b"\xff\xd8\xff"):
        _bound_jpeg(data)
        return "JPEG"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    raise Unreadable


def webp_size(data: bytes) -> tuple[int, int]:
    """Width and height of the canvas, as in the WebP container's specification (RFC 9649). Raises Unreadable."""
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


def _bound_png(data: bytes) -> None:
    profiles = 0
    for part, kind in enumerate(_png_chunks(data)):
        profiles += kind == b"iCCP"
        if part >= MAX_PARTS or profiles > 1:
            raise Unreadable


def _png_chunks(data: bytes) -> Iterator[bytes]:
    place, kind = len(_PNG_SIGNATURE), b""
    # What stands behind the end is not read by any decoder, and no reason to refuse the picture.
    while kind != b"IEND" and place + 8 <= len(data):
        kind = data[place + 4 : place + 8]
        yield kind
        place += 12 + int.from_bytes(data[place : place + 4], "big")


def _bound_jpeg(data: bytes) -> None:
    scans = 0
    for part, marker in enumerate(_jpeg_markers(data)):
        scans += marker == _START_OF_SCAN
        if part >= MAX_PARTS or scans > MAX_JPEG_SCANS:
            raise Unreadable


def _jpeg_markers(data: bytes) -> Iterator[int]:
    """The markers up to the end of the picture, and zeros for bytes that stand where a marker should."""
    place, pixels_seen = 2, False
    while place + 4 <= len(data):
        marker = data[place + 1] if data[place] == 0xFF else 0
        # Before the first scan, Pillow reads on behind an end; behind a picture's, anything may stand: a video, say.
        if marker == _END_OF_IMAGE and pixels_seen:
            return
        yield marker
        place += 2 + int.from_bytes(data[place + 2 : place + 4], "big") if marker in _WITH_LENGTH else 1
        if marker == _START_OF_SCAN:
            pixels_seen = True
            after = _AFTER_PIXELS.search(data, place)
            place = after.start() if after else len(data)
