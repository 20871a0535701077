"""A SystemOne request with its images as parts of a `multipart/form-data` body (RFC 7578).

As `typesafe-sdk` 0.7.5 sends it: the part `request` holds the JSON, whose `assets` name the other parts. What comes out
is what the ensemble takes: JSON with `image k` in its texts, and the image files in that order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from preprocess.assets import resolve_assets
from preprocess.errors import InvalidRequest, RequestTooLarge, ValidationFailed
from preprocess.image_references import decode_reference
from preprocess.settings import Settings
from preprocess.strict_json import parse_json

REQUEST_PART = "request"
_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*\{")


def boundary_of(content_type: str, body: bytes) -> bytes | None:
    """The boundary where the body is multipart; None where it is to be read as JSON, whatever its Content-Type says.

    Raises InvalidRequest (400) for a multipart body without a boundary.
    """
    media_type, options = parse_options_header(content_type)
    if media_type != b"multipart/form-data" or _OBJECT.match(body):
        return None
    boundary = options.get(b"boundary", b"")
    if not boundary:
        raise InvalidRequest("The Content-Type of a multipart body has no boundary.")
    return boundary


def unpack(body: bytes, boundary: bytes, settings: Settings) -> tuple[bytes, list[bytes]]:
    """The request's JSON for the ensemble, and the files of its images in order.

    Raises InvalidRequest (400), RequestTooLarge (413), ValidationFailed (422).
    """
    parts = split(body, boundary, settings.images_allowed + 1)
    content = parts.pop(REQUEST_PART, None)
    if content is None:
        raise ValidationFailed.at(["body", REQUEST_PART], "Field required", "missing")
    request = parse_json(content)
    if not isinstance(request, dict):
        raise InvalidRequest("The request part is not a JSON object.")
    resolved, sources = resolve_assets(request, parts, settings)
    images = [
        decode_reference(source, index, settings) if isinstance(source, str) else source
        for index, source in enumerate(sources)
    ]
    if "assets" in request:
        content = json.dumps(resolved, ensure_ascii=False, separators=(",", ":")).encode()
    return content, images


def split(body: bytes, boundary: bytes, max_parts: int) -> dict[str, bytes]:
    """The contents of the parts by name. Raises as `unpack` does."""
    # A boundary stands nowhere but around parts. Counted before the parser works, which is slow at what only begins
    # like one.
    if body.count(b"\r\n--" + boundary) > max_parts + 1:
        raise _too_many(max_parts)
    parts = _Parts()
    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": parts.begin,
                "on_header_field": parts.header_name,
                "on_header_value": parts.header_value,
                "on_part_data": parts.data,
                "on_part_end": parts.end,
                "on_end": parts.finish,
            },
        )
        parser.write(body)
    except FormParserError:
        raise InvalidRequest("The body is not multipart/form-data, as its Content-Type says.") from None
    if not parts.finished:
        raise InvalidRequest("The multipart body ends before its end.")
    if len(parts.contents) > max_parts:
        raise _too_many(max_parts)
    return parts.contents


def _too_many(max_parts: int) -> RequestTooLarge:
    return RequestTooLarge(f"The body has more than {max_parts} parts: the request and its images.")


class _Parts:
    """What the parser calls, once for each thing that it finds: it is given the whole body in one piece."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.finished = False

    def begin(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._content = b""

    def header_name(self, data: bytes, start: int, end: int) -> None:
        self._name = data[start:end].lower()

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._headers[self._name] = data[start:end]

    def data(self, data: bytes, start: int, end: int) -> None:
        self._content += data[start:end]

    def end(self) -> None:
        name = _name(self._headers)
        if name in self.contents:
            raise ValidationFailed.at(["body", name], "Two parts have this name", "repeated_part")
        self.contents[name] = self._content

    def finish(self) -> None:
        self.finished = True


def _name(headers: Mapping[bytes, bytes]) -> str:
    disposition, options = parse_options_header(headers.get(b"content-disposition", b""))
    try:
        name = options.get(b"name", b"").decode("utf-8")
    except UnicodeDecodeError:
        name = ""
    if disposition != b"form-data" or not name:
        raise InvalidRequest("A part of the body has no Content-Disposition with a name.")
    return name
