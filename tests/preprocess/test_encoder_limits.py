"""Limits on tokens at their bound and one past, cut states, and what megabytes may cost."""

from __future__ import annotations

import json
import re

import pytest

from preprocess.encoder import Encoder
from preprocess.errors import RequestTooLarge
from preprocess.plan import Truncated
from preprocess.settings import Overflow, Semantics
from preprocess.tokenizer import Tokenizer, Vocabulary
from tests.golden_cases import RELEASE
from tests.preprocess.encoding import (
    BODY,
    CountingTokenizer,
    Encoders,
    encode,
    exact_tokens,
    state_tokens,
)


@pytest.mark.parametrize("semantics", ["joint", "independent"])
def test_a_record_may_have_its_limit_and_no_more(encoders: Encoders, semantics: Semantics) -> None:
    encoder = encoders["literal"]
    needed = exact_tokens(encoder, BODY, semantics=semantics)
    assert encode(encoder, BODY, max_length=needed, semantics=semantics).truncated is None
    with pytest.raises(RequestTooLarge, match=f"needs {needed} tokens; {needed - 1} are allowed"):
        encode(encoder, BODY, max_length=needed - 1, semantics=semantics)


@pytest.mark.parametrize("semantics", ["joint", "independent"])
def test_a_state_is_cut_to_nothing_and_a_schema_is_not_cut(encoders: Encoders, semantics: Semantics) -> None:
    encoder = encoders["literal"]
    fixed = exact_tokens(encoder, BODY | {"state": ""}, semantics=semantics)
    state_tokens = exact_tokens(encoder, BODY, semantics=semantics) - fixed
    encoded = encode(encoder, BODY, max_length=fixed, semantics=semantics, overflow="truncate")
    assert encoded.truncated == Truncated(kept=0, dropped=state_tokens)
    for overflow in ("truncate", "reject"):
        with pytest.raises(RequestTooLarge, match=f"needs {fixed} tokens without its state; {fixed - 1} are allowed"):
            encode(encoder, BODY, max_length=fixed - 1, semantics=semantics, overflow=overflow)


def test_images_count_as_tokens_that_cannot_be_cut(encoders: Encoders) -> None:
    grids = [[1, 16, 16], [1, 2, 64]]
    encoder = encoders["literal"]
    without = exact_tokens(encoder, BODY | {"state": ""})
    fixed = exact_tokens(encoder, BODY | {"state": ""}, grids=grids)
    assert fixed == without + 64 + 32 + 2 * 2 + 1
    with pytest.raises(RequestTooLarge, match=f"needs {fixed} tokens without its state"):
        encode(encoder, BODY, grids, max_length=fixed - 1, overflow="truncate")


def refused_tokens(error: RequestTooLarge) -> int:
    """The tokens that a refusal says are needed at least, which must be more than it says are allowed."""
    found = re.search(r"at least (\d+) tokens.*; (\d+) are allowed", str(error))
    assert found is not None, error
    needed, allowed = map(int, found.groups())
    assert needed > allowed
    return needed


@pytest.mark.parametrize("overflow", ["reject", "truncate"])
@pytest.mark.parametrize("text", ["word ", "7", " ", "é", "😀", "a", "-"])
def test_a_state_of_megabytes_costs_little(vocabulary: Vocabulary, text: str, overflow: Overflow) -> None:
    tokenizer = CountingTokenizer(vocabulary)
    body = BODY | {"state": text * (12_000_000 // len(json.dumps(text)))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("preprocess.encoder.MOST_TOKENS_CUT", 20_000)
        with pytest.raises(RequestTooLarge) as caught:
            encode(Encoder(tokenizer, 0), body, max_length=400, overflow=overflow)
    refused_tokens(caught.value)
    assert tokenizer.characters < 1_000_000
    assert max(map(len, tokenizer.texts)) < 500_000


def test_a_long_state_is_cut_and_its_tokens_are_counted(encoders: Encoders) -> None:
    words = "The quick brown fox jumps over the lazy dog. " * 20_000
    encoded = encode(encoders["literal"], BODY | {"state": words}, max_length=400, overflow="truncate")
    assert encoded.truncated is not None
    assert state_tokens(encoded.truncated) == len(Tokenizer.load(RELEASE, "literal").encode(words))


def test_a_compressible_state_is_read_to_its_end(encoders: Encoders) -> None:
    state = " " * 20_000
    needed = exact_tokens(encoders["literal"], BODY | {"state": state})
    assert needed < len(state) / 16
    assert exact_tokens(encoders["literal"], BODY | {"state": state}, max_length=needed) == needed


WORDS = "word " * 2_400_000
HUGE = {
    "id": {WORDS: {"type": "noul"}},
    "instructions": {"q": {"type": "noul", "instructions": WORDS}},
    "instructions object": {"q": {"type": "noul", "instructions": {"a": WORDS}}},
    "option": {"q": {"type": "choice", "criteria": {"a": None, WORDS: None}}},
    "description": {"q": {"type": "choice", "criteria": {"a": None, "b": WORDS}}},
    "side": {"q": {"type": "noul", "criteria": {"false": WORDS}}},
    "level": {"q": {"type": "score", "criteria": ["a", WORDS]}},
    "many options": {
        f"q{k}": {"type": "choice", "criteria": {f"option {n}": "word " * 30 for n in range(255)}} for k in range(64)
    },
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize("semantics", ["joint", "independent"])
def test_a_schema_of_megabytes_costs_little(vocabulary: Vocabulary, name: str, semantics: Semantics) -> None:
    tokenizer = CountingTokenizer(vocabulary)
    body = {"state": "x", "questions": HUGE[name]}
    # The neutral id stands for the long one, which then is the instructions.
    with pytest.raises(RequestTooLarge, match="without its state") as caught:
        encode(Encoder(tokenizer, 0), body, max_length=4_096, semantics=semantics)
    refused_tokens(caught.value)
    assert tokenizer.characters < 500_000
