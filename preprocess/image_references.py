"""The ways in which a request holds an image, to the bytes of its file. Nothing is ever fetched or opened.

A file stands at `index` of a list, and `within` says of which: the request's images or videos, or one video's frames.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from preprocess.errors import RequestTooLarge, ValidationFailed
from preprocess.settings import Settings

# Of a video; transformers' processor refuses a single one.
LEAST_FRAMES = 2

Within = tuple[str | int, ...]
IMAGES: Within = ("images",)
VIDEOS: Within = ("videos",)

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*://")
_WHITESPACE = str.maketrans("", "", " \t\r\n")
_NOT_OPENED = "URLs and paths are never opened: send a data URL or base64"


def decode_reference(reference: str, index: int, settings: Settings, within: Within = IMAGES) -> bytes:
    """The file that a data URL or plain base64 holds.

    Raises ValidationFailed (422), and RequestTooLarge (413) before anything is decoded.
    """
    if _URL.match(reference):
        raise _refused(index, within, _NOT_OPENED, "image_url")
    if reference[:5].lower() == "data:":
        header, comma, payload = reference.partition(",")
        if not comma or not header.lower().endswith(";base64"):
            kind = "video" if within == VIDEOS else "image"
            raise _refused(index, within, f"A data URL should be data:{kind}/…;base64,…", "image_data_url")
    else:
        payload = reference
    payload = payload.translate(_WHITESPACE)
    check_file_size(len(payload) // 4 * 3 - payload[-2:].count("="), index, settings, within)
    try:
        data = base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise _refused(index, within, f"It is not base64. {_NOT_OPENED}", "image_base64") from None
    return data


def check_image_count(count: int, settings: Settings) -> None:
    """Raises RequestTooLarge over the number of images that a request may hold."""
    if count > settings.images_allowed:
        raise RequestTooLarge(f"The request has {count} images; {settings.images_allowed} are allowed.")


def check_video_counts(videos: list[Any], settings: Settings) -> None:
    """Raises RequestTooLarge over the number of videos that a request may hold, or of their frames together."""
    if len(videos) > settings.images_allowed:
        raise RequestTooLarge(f"The request has {len(videos)} videos; {settings.images_allowed} are allowed.")
    frames = sum(len(video) for video in videos if isinstance(video, list))
    if frames > settings.max_video_frames:
        raise RequestTooLarge(f"The videos have {frames} frames; {settings.max_video_frames} are allowed.")


def check_file_size(size: int, index: int, settings: Settings, within: Within = IMAGES) -> None:
    """Raises RequestTooLarge where one file has too many bytes; a video's is as large as images together may be."""
    most = settings.max_images_bytes if within == VIDEOS else settings.max_image_bytes
    if size > most:
        raise RequestTooLarge(f"{name_of(index, within)} has {size} bytes; {most} are allowed.")


def check_files_size(files: list[bytes], settings: Settings) -> None:
    """Raises RequestTooLarge where the images' files together have too many bytes."""
    size = sum(map(len, files))
    if size > settings.max_images_bytes:
        raise RequestTooLarge(f"The images have {size} bytes together; {settings.max_images_bytes} are allowed.")


def name_of(index: int, within: Within = IMAGES) -> str:
    """`images[0]`, `videos[0][3]`: an image as messages call it."""
    field, *places = within
    return f"{field}{''.join(f'[{place}]' for place in (*places, index))}"


def _refused(index: int, within: Within, message: str, kind: str) -> ValidationFailed:
    return ValidationFailed.at(["body", *within, index], message, kind)
