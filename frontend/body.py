"""A request's body, read as a stream under a limit, and decompressed under the same limit.

Nothing of a body is kept past its limit: neither what arrives (a missing or wrong Content-Length changes nothing) nor
what it unpacks to.
"""

import asyncio
import zlib
from collections.abc import Callable

import zstandard
from starlette.requests import Request

from frontend.errors import RequestTimeout, UnsupportedEncoding
from preprocess.errors import InvalidRequest, RequestTooLarge

# Bodies up to here unpack faster than a thread is found for them.
_INLINE_BYTES = 8 * 1024
# RFC 9659's bound on a zstd window; a frame in one piece has its whole content as its window.
_ZSTD_WINDOW = 8 * 1024 * 1024
# zstandard bounds no call's output, and four bytes can stand for a block of 128 KiB: 256 make at most 8 MiB.
_ZSTD_SLICE = 256
# What stands behind the end of a gzip member is copied with each of them, so little is shown at a time.
_GZIP_SLICE = 64 * 1024
# Of gzip members or zstd frames. Clients send one, parallel compressors one for each of their blocks, and each costs
# microseconds, of which millions of empty ones would make minutes.
MAX_FRAMES = 1024


async def read_body(request: Request, limit: int, timeout_s: float) -> bytes:
    """The body's bytes with its Content-Encoding undone, at most `limit` of them.

    Raises RequestTooLarge, InvalidRequest (does not unpack), UnsupportedEncoding, RequestTimeout, and Starlette's
    ClientDisconnect where the client went away.
    """
    decompress = _decompressor(request)
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced[:20]) > limit:
        raise RequestTooLarge(_too_large(announced[:20], limit))
    try:
        async with asyncio.timeout(timeout_s):
            body = await _receive(request, limit)
    except TimeoutError:
        raise RequestTimeout(f"The body did not arrive within {timeout_s:g} s.") from None
    if decompress is None:
        return body
    if len(body) <= _INLINE_BYTES:
        return decompress(body, limit)
    return await asyncio.to_thread(decompress, body, limit)


async def _receive(request: Request, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise RequestTooLarge(_too_large(f"more than {limit}", limit))
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _decompressor(request: Request) -> Callable[[bytes, int], bytes] | None:
    encoding = ", ".join(request.headers.getlist("content-encoding")).strip().lower()
    match encoding:
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return unpack_gzip
        case "zstd":
            return unpack_zstd
        case _:
            raise UnsupportedEncoding("This Content-Encoding is not read here; send gzip, zstd or none.")


def unpack_gzip(body: bytes, limit: int) -> bytes:
    """The content of one or more gzip members, at most `limit` bytes."""
    content = bytearray()
    members = 1
    member = zlib.decompressobj(wbits=31)
    try:
        for start in range(0, len(body), _GZIP_SLICE):
            piece = body[start : start + _GZIP_SLICE]
            while piece:
                if member.eof:
                    members = _one_more(members)
                    member = zlib.decompressobj(wbits=31)
                content += member.decompress(piece, limit + 1 - len(content))
                piece = member.unused_data
                if len(content) > limit:
                    raise RequestTooLarge(_too_large(f"more than {limit}", limit))
    except zlib.error:
        raise InvalidRequest("The body is not gzip, as its Content-Encoding says.") from None
    if not member.eof:
        raise InvalidRequest("The gzip body ends before its end.")
    return bytes(content)


def unpack_zstd(body: bytes, limit: int) -> bytes:
    """The content of one or more zstd frames, at most `limit` bytes."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=max(_ZSTD_WINDOW, limit))
    content = bytearray()
    frames = 1
    frame = decompressor.decompressobj()
    try:
        for start in range(0, len(body), _ZSTD_SLICE):
            piece = body[start : start + _ZSTD_SLICE]
            while piece:
                if frame.eof:
                    frames = _one_more(frames)
                    frame = decompressor.decompressobj()
                content += frame.decompress(piece)
                piece = frame.unused_data
                if len(content) > limit:
                    raise RequestTooLarge(_too_large(f"more than {limit}", limit))
    except zstandard.ZstdError:
        raise InvalidRequest("The body is not zstd, as its Content-Encoding says.") from None
    if not frame.eof:
        raise InvalidRequest("The zstd body ends before its end.")
    return bytes(content)


def _one_more(frames: int) -> int:
    if frames == MAX_FRAMES:
        raise InvalidRequest(f"The packed body has more than {MAX_FRAMES} members or frames.")
    return frames + 1


def _too_large(size: str, limit: int) -> str:
    return f"The body has {size} bytes; {limit} are allowed."
