"""The ways in which a request holds an image, to the bytes of its file. Nothing is ever fetched or opened."""

from __future__ import annotations

import base64
import binascii
import re

from preprocess.errors import RequestTooLarge, ValidationFailed
from preprocess.settings import Settings

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*://")
_WHITESPACE = str.maketrans("", "", " \t\r\n")
_NOT_OPENED = "URLs and paths are never opened: send a data URL or base64"


def decode_reference(reference: str, index: int, settings: Settings) -> bytes:
    """The file that a data URL or plain base64 holds; `index` is the image's place in the request.

    Raises ValidationFailed (422), and RequestTooLarge (413) before anything is decoded.
    """
    if _URL.match(reference):
        raise _refused(index, _NOT_OPENED, "image_url")
    if reference[:5].lower() == "data:":
        header, comma, payload = reference.partition(",")
        if not comma or not header.lower().endswith(";base64"):
            raise _refused(index, "A data URL should be data:image/…;base64,…", "image_data_url")
    else:
        payload = reference
    payload = payload.translate(_WHITESPACE)
    check_file_size(len(payload) // 4 * 3 - payload[-2:].count("="), index, settings)
    try:
        data = base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise _refused(index, f"Image is not base64. {_NOT_OPENED}", "image_base64") from None
    return data


def check_image_count(count: int, settings: Settings) -> None:
    """Raises RequestTooLarge over the number of images that a request may hold."""
    if count > settings.images_allowed:
        raise RequestTooLarge(f"The request has {count} images; {settings.images_allowed} are allowed.")


def check_file_size(size: int, index: int, settings: Settings) -> None:
    """Raises RequestTooLarge where one image's file has too many bytes."""
    if size > settings.max_image_bytes:
        raise RequestTooLarge(f"images[{index}] has {size} bytes; {settings.max_image_bytes} are allowed.")


def check_files_size(files: list[bytes], settings: Settings) -> None:
    """Raises RequestTooLarge where the images' files together have too many bytes."""
    size = sum(map(len, files))
    if size > settings.max_images_bytes:
        raise RequestTooLarge(f"The images have {size} bytes together; {settings.max_images_bytes} are allowed.")


def _refused(index: int, message: str, kind: str) -> ValidationFailed:
    return ValidationFailed.at(["body", "images", index], message, kind)
