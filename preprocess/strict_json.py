"""JSON as the contract takes it: what has no single right reading, or cannot be written back, is refused.

Python's own parser does the work, since its spelling of numbers is part of the prompt (`1250.0` stays `1250.0`).
"""

from __future__ import annotations

import codecs
import json
import math
import re
from typing import Any, NoReturn

from preprocess.errors import InvalidJson, InvalidRequest, ValidationFailed

# Levels of arrays and objects inside the outermost one.
MAX_DEPTH = 64

# Escapes alone can write a lone surrogate: the UTF-8 decoder refuses the raw bytes.
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def without_mark(body: bytes) -> bytes:
    """The body without the byte order mark that some editors and shells write first (RFC 8259, 8.1: it may be ignored
    in place of being an error).
    """
    return body.removeprefix(codecs.BOM_UTF8)


class _RepeatedKey(Exception):
    pass


class _Repeating(dict[str, Any]):
    """An object that the slow pass found to repeat `key`."""

    key: str


def parse_json(body: bytes) -> Any:
    """The value that `body` holds.

    Raises InvalidRequest (400) where it is not UTF-8, or holds a number or a string that Python cannot print back as
    JSON; InvalidJson (422) where it does not parse; ValidationFailed (422) with the place of a repeated key or of too
    deep nesting.
    """
    try:
        text = without_mark(body).decode("utf-8")
        try:
            value = _DECODER.decode(text)
        except _RepeatedKey:
            # Read to the end now, it may turn out to be no JSON at all.
            raise ValidationFailed.at(_place_of_repeat(text), "Key repeated in one object", "repeated_key") from None
    except UnicodeDecodeError:
        raise InvalidRequest("The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise InvalidJson.of(error) from None
    except RecursionError:
        raise ValidationFailed.at(["body"], _TOO_DEEP, "too_deep") from None
    except ValueError:
        # Python's bound on the digits of an integer (sys.set_int_max_str_digits), which holds for printing too.
        raise InvalidRequest("The body holds an integer with too many digits.") from None
    _check_depth(body, value)
    _check_surrogates(body, value)
    return value


_TOO_DEEP = f"Nested over {MAX_DEPTH} levels deep"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _RepeatedKey
    return value


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise InvalidRequest("The body holds a number too large for a double.")
    return value


def _constant(_: str) -> NoReturn:
    raise InvalidRequest("The body is not JSON: it holds NaN or Infinity.")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)


def _place_of_repeat(text: str) -> list[str | int]:
    # The hook is called from the inside out and knows no path, so the failing body alone is read again for it.
    def mark(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = _Repeating(pairs)
        if len(value) == len(pairs):
            return dict(value)
        seen: set[str] = set()
        value.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return value

    return ["body", *_path_to_repeat(json.loads(text, object_pairs_hook=mark))]


def _path_to_repeat(root: Any) -> list[str | int]:
    stack: list[tuple[Any, list[str | int]]] = [(root, [])]
    while stack:
        value, path = stack.pop()
        if isinstance(value, _Repeating):
            return [*path, value.key]
        children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        stack.extend((child, [*path, key]) for key, child in children if isinstance(child, dict | list))
    return []


def _check_depth(body: bytes, value: Any) -> None:
    # No body with so few brackets can be that deep; most are not walked at all.
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    fields = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, field in fields:
        if _deeper_than(field, MAX_DEPTH):
            raise ValidationFailed.at(["body", name], _TOO_DEEP, "too_deep")


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
    return bool(level)


def _check_surrogates(body: bytes, value: Any) -> None:
    if _SURROGATE_ESCAPE.search(body) is None:
        return
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidRequest("The body holds half of a surrogate pair, which is no character.") from None
