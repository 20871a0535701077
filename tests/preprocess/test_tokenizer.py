"""Two readings of user text, on the golden tokenizer and on one with added tokens of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from preprocess import prompt
from preprocess.settings import SpecialTokens
from preprocess.tokenizer import Tokenizer, TokenizerError, Vocabulary
from tests.golden_cases import RELEASE

FILE: dict[str, Any] = json.loads((RELEASE / "tokenizer.json").read_text("utf-8"))
PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def with_added(*more: dict[str, Any], special: bool = True) -> str:
    """The golden tokenizer's file with further added tokens; `special` for those that it has."""
    tokens = [token | {"special": special, "normalized": not special} for token in FILE["added_tokens"]]
    for token in more:
        tokens.append(PLAIN | token | {"id": 2_000 + len(tokens)})
    return json.dumps(FILE | {"added_tokens": tokens}, ensure_ascii=False)


MIXED = with_added(
    {"content": "<tool_call>", "special": False},
    {"content": "</tool_call>", "special": False, "normalized": True},
    {"content": "<|strip|>", "special": False, "lstrip": True, "rstrip": True},
    {"content": "<|word|>", "special": True, "single_word": True, "rstrip": True},
    {"content": "caf\u00e9", "special": False, "normalized": True},
    {"content": "naïve", "special": True},
    {"content": "Theword", "special": False},
    {"content": "服务", "special": False, "normalized": True},
)
ADDED = {token["content"]: token["id"] for token in json.loads(MIXED)["added_tokens"]}


@pytest.fixture(scope="module", params=["both kinds", "no special", "golden"])
def file_text(request: pytest.FixtureRequest) -> str:
    texts = {"both kinds": MIXED, "no special": with_added(special=False), "golden": json.dumps(FILE)}
    return texts[request.param]


@pytest.mark.parametrize("token", ADDED)
@pytest.mark.parametrize("around", ["{}", " {} ", "x{}x", "{}\n{}", '{{"a":"{}"}}', "{}{}{}"])
def test_literal_reads_no_added_token_in_text(token: str, around: str) -> None:
    ids = Tokenizer(Vocabulary(MIXED), "literal").encode(around.replace("{}", token))
    assert ids
    assert not set(ids) & set(ADDED.values())


@given(st.lists(st.sampled_from(sorted(ADDED)) | st.text(max_size=5), max_size=12).map("".join))
def test_literal_text_is_all_there(text: str) -> None:
    vocabulary = Vocabulary(MIXED)
    ids = Tokenizer(vocabulary, "literal").encode(text)
    assert not set(ids) & set(ADDED.values())
    normalized = tokenizers.normalizers.NFC().normalize_str(text)
    assert vocabulary.literal.decode(ids, skip_special_tokens=False) == normalized


def test_reference_reads_them_all() -> None:
    tokenizer = Tokenizer(Vocabulary(MIXED), "reference")
    for token, token_id in ADDED.items():
        assert token_id in tokenizer.encode(f"x {token} y")


TEXTS = st.lists(
    st.sampled_from([*sorted(ADDED), " ", "\n", "e\u0301", "cafe\u0301", "OPTION 1: "]) | st.text(max_size=8)
)


@given(TEXTS.map("".join))
def test_reference_reads_as_the_files_own_tokenizer_does(text: str) -> None:
    for file_text in (MIXED, with_added(special=False)):
        own = tokenizers.Tokenizer.from_str(file_text)
        assert (
            Tokenizer(Vocabulary(file_text), "reference").encode(text) == own.encode(text, add_special_tokens=False).ids
        )


@pytest.mark.parametrize("mode", ["literal", "reference"])
def test_the_structure_is_the_files_own_in_both_readings(file_text: str, mode: SpecialTokens) -> None:
    own = tokenizers.Tokenizer.from_str(file_text)
    tokenizer = Tokenizer(Vocabulary(file_text), mode)
    assert tokenizer.prefix == own.encode(prompt.PREFIX).ids
    assert tokenizer.suffix == own.encode(prompt.SUFFIX).ids
    assert [tokenizer.vision_start, tokenizer.image_pad, tokenizer.vision_end, *tokenizer.media_end] == own.encode(
        "<|vision_start|><|image_pad|><|vision_end|>\n"
    ).ids


@pytest.mark.parametrize("text", ["", "\0", "abc\0\0", "😀" * 1_000, "e\u0301", "\u200d\ufeff", "a" * 10_000])
def test_text_comes_back_in_its_composed_form(vocabulary: Vocabulary, text: str) -> None:
    ids = Tokenizer(vocabulary, "literal").encode(text)
    assert vocabulary.literal.decode(ids) == tokenizers.normalizers.NFC().normalize_str(text)


def test_truncation_and_padding_of_the_file_are_not_applied() -> None:
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    padding = {"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 2_000,
               "pad_type_id": 0, "pad_token": "<|endoftext|>"}  # fmt: skip
    file_text = json.dumps(FILE | {"truncation": truncation, "padding": padding})
    plain = Tokenizer(Vocabulary(json.dumps(FILE)), "literal").encode("one two three four")
    for mode in ("literal", "reference"):
        assert Tokenizer(Vocabulary(file_text), mode).encode("one two three four") == plain


def test_a_tokenizer_without_a_normalizer_is_read_as_it_is() -> None:
    file_text = json.dumps(FILE | {"normalizer": None})
    composed, decomposed = (Tokenizer(Vocabulary(file_text), "literal").encode(text) for text in ("é", "e\u0301"))
    assert composed != decomposed


def test_an_added_token_that_text_could_spell_is_refused() -> None:
    token = next(token for token, token_id in FILE["model"]["vocab"].items() if token == "the")
    tokens = [*FILE["added_tokens"], PLAIN | {"content": token, "id": FILE["model"]["vocab"][token]}]
    with pytest.raises(TokenizerError, match="the is a word of the vocabulary too"):
        Vocabulary(json.dumps(FILE | {"added_tokens": tokens}))


def test_an_id_that_is_not_the_files_is_refused() -> None:
    tokens = [*FILE["added_tokens"], PLAIN | {"content": "<|new|>", "id": 5_000}]
    with pytest.raises(TokenizerError, match="another id"):
        Vocabulary(json.dumps(FILE | {"added_tokens": tokens}))


def test_a_tokenizer_without_the_prompts_tokens_is_refused() -> None:
    tokens = [token for token in FILE["added_tokens"] if token["content"] != "<|image_pad|>"]
    for place, token in enumerate(tokens):
        token = tokens[place] = dict(token)
        token["id"] = 2_000 + place
    with pytest.raises(TokenizerError, match="image_pad"):
        Tokenizer(Vocabulary(json.dumps(FILE | {"added_tokens": tokens})), "literal")


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff", b"{", b'{"added_tokens": [', b'{"added_tokens": []}'])
def test_a_file_that_is_no_tokenizer_is_refused_with_a_sentence(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path, "literal")


def test_a_word_of_the_vocabulary_is_not_taken_for_the_files_key() -> None:
    vocabulary = dict(FILE["model"]["vocab"])
    word = '"added_tokens":['
    vocabulary[word] = vocabulary.pop("Ġthe")
    early = {"model": FILE["model"] | {"vocab": vocabulary, "merges": []}} | FILE
    early["model"] = FILE["model"] | {"vocab": vocabulary, "merges": []}
    tokenizer = Tokenizer(Vocabulary(json.dumps(early)), "literal")
    assert len(tokenizer.encode("<|im_end|>")) > 1
