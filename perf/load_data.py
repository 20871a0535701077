"""Requests to put load with: support messages and orders as services ask about them, made from a seed.

No two states are alike. The tokenizer of the measuring release is small: the fixed text around a question takes more
tokens in it than in the real one, and every figure says how many tokens its requests had.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

from PIL import Image

Request = dict[str, Any]

SHORT_WORDS = 16
LONG_WORDS = 900
MANY_OPTIONS = 64
IMAGE_SIDE = 256

_TEXT = (
    "the parcel arrived broken and nobody answers my mails since Monday so I want the money back before our invoice "
    "is due please check whether the carrier lost it again because this order was paid twice and support closed a "
    "ticket without any reply while the site is down for customers in two regions after last night's change of plan"
)
_WORDS = _TEXT.split()
_QUESTIONS: Request = {
    "refund": {"type": "noul", "instructions": "Does the customer want money back?"},
    "topic": {
        "type": "choice",
        "instructions": "What is the message about?",
        "criteria": {"billing": "Invoices", "delivery": "Parcels", "other": None},
    },
    "urgency": {"type": "score", "instructions": "How urgent?", "criteria": ["It can wait", "This week", "Today"]},
}


def text(words: int, chance: random.Random) -> str:
    return " ".join(chance.choice(_WORDS) for _ in range(words))


def short(chance: random.Random) -> Request:
    """A sentence and three questions."""
    return {"state": text(SHORT_WORDS, chance), "questions": _QUESTIONS}


def json_state(chance: random.Random) -> Request:
    """An order with its lines, and three questions."""
    lines = [{"sku": f"A-{chance.randrange(10**6)}", "count": chance.randrange(9), "price": 19.5} for _ in range(6)]
    state = {"order": chance.randrange(10**8), "paid": True, "lines": lines, "note": text(20, chance)}
    return {"state": state, "questions": _QUESTIONS}


def long(chance: random.Random) -> Request:
    """A thread of mails and one question."""
    return {"state": text(LONG_WORDS, chance), "questions": {"refund": _QUESTIONS["refund"]}}


def many_options(chance: random.Random) -> Request:
    """One choice of many."""
    return with_options(MANY_OPTIONS, chance)


def image(chance: random.Random) -> Request:
    """A short request with a picture, inline."""
    return with_images(1, IMAGE_SIDE, chance)


def with_questions(count: int, chance: random.Random) -> Request:
    question = _QUESTIONS["topic"]
    return {"state": text(SHORT_WORDS, chance), "questions": {f"q{k}": question for k in range(count)}}


def with_options(count: int, chance: random.Random) -> Request:
    criteria = {f"queue-{k}": None for k in range(count)}
    question = {"type": "choice", "instructions": "Which queue takes this?", "criteria": criteria}
    return {"state": text(SHORT_WORDS, chance), "questions": {"queue": question}}


def with_images(count: int, side: int, chance: random.Random) -> Request:
    return short(chance) | {"images": [_picture(side, chance) for _ in range(count)]}


def _picture(side: int, chance: random.Random) -> str:
    small = Image.frombytes("RGB", (8, 8), chance.randbytes(8 * 8 * 3))
    buffer = BytesIO()
    small.resize((side, side), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
    return base64.b64encode(buffer.getvalue()).decode()


KINDS: dict[str, Callable[[random.Random], Request]] = {
    "short": short,
    "JSON": json_state,
    "long": long,
    "many options": many_options,
    "image": image,
}
"""By name, what a realistic load is mixed of."""

SHARES = {"short": 12, "JSON": 4, "long": 1, "many options": 2, "image": 1}
"""Of 20 requests of a realistic mix."""


def mix(count: int, seed: int = 0) -> Iterator[bytes]:
    """Bodies of a realistic mix in a random order."""
    chance = random.Random(seed)
    kinds = [name for name, share in SHARES.items() for _ in range(share)]
    while count > 0:
        chance.shuffle(kinds)
        for kind in kinds[:count]:
            yield body(KINDS[kind](chance))
        count -= len(kinds)


def shorts(count: int, seed: int = 0) -> Iterator[bytes]:
    """Bodies of short requests."""
    chance = random.Random(seed)
    for _ in range(count):
        yield body(short(chance))


def body(request: Request) -> bytes:
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()
