"""A release's tokenizer, straight on `tokenizers`, in one of two readings of the text that users send.

`literal`: no added token is read in user text, whether the tokenizer marks it special or not. `encode_special_tokens`
of `tokenizers` covers the special ones alone, so user text goes to a tokenizer that has no added tokens at all.
`reference`: added tokens inside user text become structure, as the publisher's own call reads them.
The structure of the prompt is the same in both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers

from preprocess import prompt
from preprocess.settings import SpecialTokens

# A key of the file, never a word of its vocabulary: there the quotes are escaped.
_ADDED_TOKENS = re.compile(r'"added_tokens"\s*:\s*(?=\[)')


class TokenizerError(Exception):
    """The release's tokenizer cannot write a Clef prompt: the step must not start."""


class Vocabulary:
    """The tokenizers of one release, with and without its added tokens, over one model (a real one takes 100 MB)."""

    def __init__(self, file_text: str) -> None:
        added, without_added = _split_added_tokens(file_text)
        try:
            self.literal = tokenizers.Tokenizer.from_str(without_added)
        except Exception as error:  # `tokenizers` raises no narrower class
            raise TokenizerError(f"tokenizer.json is not readable: {error}") from error
        self.literal.no_truncation()
        self.literal.no_padding()
        self.structural = tokenizers.Tokenizer(self.literal.model)
        if self.literal.normalizer is not None:
            self.structural.normalizer = self.literal.normalizer
        if self.literal.pre_tokenizer is not None:
            self.structural.pre_tokenizer = self.literal.pre_tokenizer
        # With the normalizer in place, since a normalized token is matched in its normalized form.
        self.structural.add_tokens([_added_token(token) for token in added])
        for token in added:
            self._check(token["content"], token["id"])
        # Counted rather than listed: the vocabulary of a real release would take 30 MB as a dictionary.
        self.last_id = max([self.literal.get_vocab_size() - 1, *(token["id"] for token in added)])

    @classmethod
    def load(cls, release: Path) -> Vocabulary:
        """The vocabulary of a release directory. Raises TokenizerError."""
        path = release / "tokenizer.json"
        try:
            return cls(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise TokenizerError(f"{path} cannot be read: {error}") from error

    def _check(self, token: str, token_id: int) -> None:
        if self.structural.token_to_id(token) != token_id:
            raise TokenizerError(f"The tokenizer gives {token} another id than its file does.")
        if token_id in _ids(self.literal, token):
            raise TokenizerError(f"{token} is a word of the vocabulary too: it cannot be read as text.")


class Tokenizer:
    """Ids of user text (`encode`) in one reading, and of the structure around it (the attributes)."""

    def __init__(self, vocabulary: Vocabulary, special_tokens: SpecialTokens) -> None:
        structural = vocabulary.structural
        self.prefix = _ids(structural, prompt.PREFIX)
        self.suffix = _ids(structural, prompt.SUFFIX)
        self.media_end = _ids(structural, prompt.MEDIA_END)
        self.vision_start = _single(structural, prompt.VISION_START)
        self.image_pad = _single(structural, prompt.IMAGE_PAD)
        self.vision_end = _single(structural, prompt.VISION_END)
        self._structural = structural
        self._text = structural if special_tokens == "reference" else vocabulary.literal

    @classmethod
    def load(cls, release: Path, special_tokens: SpecialTokens) -> Tokenizer:
        """The tokenizer of a release directory. Raises TokenizerError."""
        return cls(Vocabulary.load(release), special_tokens)

    def encode(self, text: str) -> list[int]:
        """The ids of one piece of user text."""
        return _ids(self._text, text)

    def video(self, timestamps: Sequence[str], group_tokens: int) -> list[int]:
        """The ids of a video: for each group the text of its time, and then its tokens."""
        pad = _single(self._structural, prompt.VIDEO_PAD)
        ids = [self.vision_start]
        for timestamp in timestamps:
            ids += *_ids(self._structural, timestamp), self.vision_start, *[pad] * group_tokens, self.vision_end
        return [*ids, self.vision_end]


def _ids(tokenizer: tokenizers.Tokenizer, text: str) -> list[int]:
    # The fast variant computes no offsets, which saves a quarter of the time of a long text.
    ids: list[int] = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
    return ids


def _single(tokenizer: tokenizers.Tokenizer, token: str) -> int:
    ids = _ids(tokenizer, token)
    if len(ids) != 1:
        raise TokenizerError(f"The tokenizer does not know {token} as one token.")
    return ids[0]


def _added_token(token: dict[str, Any]) -> tokenizers.AddedToken:
    return tokenizers.AddedToken(**{key: value for key, value in token.items() if key != "id"})


def _split_added_tokens(file_text: str) -> tuple[list[dict[str, Any]], str]:
    # Cut out of the text: parsing the whole of a real tokenizer.json into Python would cost 150 MB for a moment.
    match = _ADDED_TOKENS.search(file_text)
    if match is None:
        raise TokenizerError("tokenizer.json has no added_tokens.")
    tokens, end = json.JSONDecoder().raw_decode(file_text, match.end())
    return tokens, f"{file_text[: match.end()]}[]{file_text[end:]}"
