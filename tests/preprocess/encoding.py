"""Encoding a request in a test, with everything checked that holds for all of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from preprocess.encoder import Encoded, Encoder
from preprocess.plan import Truncated
from preprocess.schema import Request, parse_request
from preprocess.settings import Overflow, Semantics, Settings, SpecialTokens
from preprocess.tokenizer import Tokenizer, Vocabulary
from tests.golden_cases import RELEASE
from tests.preprocess.checks import ARRAYS, per_record

Encoders = dict[SpecialTokens, Encoder]


class CountingTokenizer(Tokenizer):
    """A literal tokenizer that remembers what it was given."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.texts: list[str] = []
        super().__init__(vocabulary, "literal")

    @property
    def characters(self) -> int:
        return sum(map(len, self.texts))

    def encode(self, text: str) -> list[int]:
        self.texts.append(text)
        return super().encode(text)


def request_of(body: dict[str, Any]) -> Request:
    return parse_request(json.dumps(body).encode(), Settings(release=RELEASE))


def encode(
    encoder: Encoder,
    body: dict[str, Any],
    grids: Any = (),
    *,
    max_length: int = 16_384,
    semantics: Semantics = "joint",
    overflow: Overflow = "reject",
) -> Encoded:
    media = np.array(grids, dtype=np.int32).reshape(-1, 3)
    encoded = encoder.encode(request_of(body), media, max_length=max_length, semantics=semantics, overflow=overflow)
    assert encoded.records[:, 0].max() <= max_length
    per_record(encoded)
    return encoded


def same(left: Encoded, right: Encoded) -> bool:
    return (
        all(np.array_equal(getattr(left, name), getattr(right, name)) for name in ARRAYS)
        and left.planned == right.planned
    )


def exact_tokens(encoder: Encoder, body: dict[str, Any], **options: Any) -> int:
    return int(encode(encoder, body, **options).records[:, 0].max())


BODY = {"state": "state " * 40, "questions": {"a": {"type": "noul"}, "b": {"type": "score", "criteria": ["x", "y"]}}}


def state_tokens(truncated: Truncated | None) -> int:
    """The tokens of a state that was cut, before it was."""
    assert truncated is not None
    return truncated.kept + truncated.dropped
