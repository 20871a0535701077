"""Reading a text part by part gives the ids of reading it whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preprocess import long_text
from preprocess.long_text import PART_CHARS, read
from preprocess.tokenizer import Tokenizer
from tests.golden_cases import RELEASE

TOKENIZER = Tokenizer.load(RELEASE, "literal")
REFERENCE = Tokenizer.load(RELEASE, "reference")
PIECES = [
    *("word", "Two", " ", "\n", "\n\n", "\r\n", "\t", ".", ",", "7", "'s", "_", " a b", '{"a":1}', "<|im_end|>"),
    *("é", "e\u0301", "\u0301", "服务", "。", "😀", "नमस्ते", "\u200d"),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)


class Counting:
    """The tokenizer, and the characters that it was given."""

    def __init__(self) -> None:
        self.characters = 0

    def __call__(self, text: str) -> list[int]:
        self.characters += len(text)
        return TOKENIZER.encode(text)


@given(
    text=TEXTS,
    keep=st.integers(0, 60),
    part_chars=st.integers(1, 40),
    tokenizer=st.sampled_from([TOKENIZER, REFERENCE]),
)
def test_what_is_kept_is_exact(text: str, keep: int, part_chars: int, tokenizer: Tokenizer) -> None:
    whole = tokenizer.encode(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_text, "MARGIN", 20)
        reading = read(tokenizer.encode, text, keep, stop_at=10_000, part_chars=part_chars)
    assert reading.ids == whole[:keep]
    assert reading.whole
    if reading.tokens <= keep:
        assert reading.tokens == len(whole)
    assert abs(reading.tokens - len(whole)) <= len(text) // part_chars * 4


@given(text=TEXTS, part_chars=st.integers(1, 40))
def test_a_text_that_is_kept_whole_is_counted_exactly(text: str, part_chars: int) -> None:
    whole = TOKENIZER.encode(text)
    assert read(TOKENIZER.encode, text, len(whole), len(whole), part_chars) == (whole, len(whole), True)


@given(text=st.lists(st.sampled_from([" one", " two", "\nthree", " Four5", " six\n7"]), min_size=1).map("".join))
def test_a_text_with_seams_is_counted_exactly(text: str) -> None:
    assert read(TOKENIZER.encode, text, 0, 10**9, part_chars=16).tokens == len(TOKENIZER.encode(text))


def test_ordinary_text_is_read_once() -> None:
    counting = Counting()
    text = "The quick brown fox jumps over the lazy dog. " * 10_000
    reading = read(counting, text, keep=10**6, stop_at=10**6)
    assert reading.ids == TOKENIZER.encode(text)
    assert counting.characters == len(text)


def test_reading_stops_where_it_may() -> None:
    counting = Counting()
    text = "The quick brown fox jumps over the lazy dog. " * 100_000
    reading = read(counting, text, keep=100, stop_at=1_000)
    assert reading.ids == TOKENIZER.encode(text[:10_000])[:100]
    assert not reading.whole and reading.tokens > 1_000
    assert counting.characters <= PART_CHARS


@pytest.mark.parametrize("text", ["a", "7", "-", "é", "服", "😀", '{"a":1},'])
def test_a_text_without_seams_is_read_as_far_as_it_is_kept(text: str) -> None:
    text *= 600_000 // len(text)
    counting = Counting()
    reading = read(counting, text, keep=5_000, stop_at=10_000)
    assert reading.ids == TOKENIZER.encode(text[:200_000])[:5_000]
    assert not reading.whole
    assert counting.characters <= 4 * PART_CHARS


def test_a_text_of_few_tokens_is_read_to_its_end() -> None:
    text = " " * 300_000
    assert read(TOKENIZER.encode, text, 20_000, 20_000) == (TOKENIZER.encode(text), len(TOKENIZER.encode(text)), True)


@pytest.mark.parametrize("keep", [0, 1, 10])
def test_an_empty_text_has_no_tokens(keep: int) -> None:
    assert read(TOKENIZER.encode, "", keep, keep) == ([], 0, True)
