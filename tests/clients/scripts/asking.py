"""What the clients' scripts share: a ticket and its questions, a picture, and the same request asked without a client.

The scripts run in environments that hold one client each, so this is the standard library alone.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import urllib.request
import zlib
from collections.abc import Callable
from typing import Any

from invariants import assert_answer

URL = os.environ["SERVER_URL"]
KEYED_URL = os.environ.get("KEYED_URL", "")
"""The same server, where a key is needed that nobody here has."""
KEY = "any-key-will-do"
ACCOUNT = "0123456789abcdef"

TICKET = "I was charged twice for March (order #4471). Three e-mails, no answer. Please fix this today."
NOUL = {
    "type": "noul",
    "instructions": "Does the customer ask for money back?",
    "criteria": {"true": "A refund or a chargeback", "false": "Anything else"},
}
CHOICE = {
    "type": "choice",
    "instructions": "Which team should handle this?",
    "criteria": {"billing": "Payments, invoices, refunds", "technical": "Bugs, outages", "sales": "New contracts"},
}
SCORE = {
    "type": "score",
    "instructions": "How frustrated is the customer?",
    "criteria": ["calm", "frustrated", "very angry"],
}
QUESTIONS = {"refund": NOUL, "team": CHOICE, "anger": SCORE}
TOO_MANY_LEVELS = [f"level {level}" for level in range(11)]


def picture(width: int = 64, height: int = 48) -> bytes:
    """A PNG with a different colour in every pixel."""
    rows = b"".join(
        b"\0" + b"".join(bytes((4 * x % 256, 5 * y % 256, (x * y) % 256)) for x in range(width)) for y in range(height)
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def data_url(image: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


def answers_without_client(state: Any, questions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The answers to a plain SystemOne request, checked; what a client must have read, whichever its dialect."""
    body = {"model": "jev-latest", "state": state, "questions": questions, **fields}
    request = urllib.request.Request(
        f"{URL}/v1/systemone", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        answer = json.load(response)
    assert_answer(body, answer)
    answers: dict[str, Any] = answer["answers"]
    return answers


def assert_same(read: Any, expected: Any) -> None:
    """What a client read is what the server said; a client may lack a field, and may key levels by number."""
    if isinstance(expected, dict):
        assert read, read
        for key, value in read.items():
            assert_same(value, expected[str(key)])
    else:
        assert read == expected, (read, expected)


def raised(kind: type[BaseException], call: Callable[[], Any]) -> Any:
    """The exception of exactly this class that the call raises."""
    try:
        result = call()
    except kind as error:
        assert type(error) is kind, repr(error)
        return error
    raise AssertionError(f"no {kind.__name__}, but {result!r}")


def report(calls: int, *errors: BaseException) -> None:
    """The last line of a script: what it did, for the test to compare."""
    print(json.dumps({"calls": calls, "errors": [type(error).__name__ for error in errors]}))
