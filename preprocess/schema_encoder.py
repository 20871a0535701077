"""From a request's questions to the token ids behind the state, with the spans of questions and options in them.

Fixed pieces are tokenized once. A question's own pieces are kept by their text, so that a question seen in one schema
costs nothing in another; a whole schema is kept by the content of its questions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from preprocess import prompt
from preprocess.long_text import read
from preprocess.lru import Lru
from preprocess.plan import PlannedQuestion
from preprocess.schema import Question
from preprocess.settings import Semantics
from preprocess.tokenizer import Tokenizer

Ints = npt.NDArray[np.int32]

# Entries may be few and large: together they hold no more tokens than this for each one allowed.
TOKENS_PER_ENTRY = 512
_DUMPS = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class TooManyTokens(Exception):
    """The questions alone take at least `tokens` tokens; encoding stopped there."""

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self.tokens = tokens


@dataclass(frozen=True, slots=True)
class Tail:
    """What follows the state in one record. Spans count from the first id here, half-open.

    ids [n]; questions [Q, 4] (start, end, type, options); option_spans [O, 2] in head order.
    """

    ids: Ints
    questions: Ints
    option_spans: Ints


@dataclass(frozen=True, slots=True)
class EncodedSchema:
    """A tail for each record, and what the answer needs to know of each question."""

    tails: tuple[Tail, ...]
    questions: tuple[PlannedQuestion, ...]


@dataclass(frozen=True, slots=True)
class _Body:
    """A question from its instructions to its end; the spans count from its first id."""

    ids: Ints
    question_end: int
    option_spans: Ints


class SchemaEncoder:
    """`encode` gives the same ids whether anything was kept or not."""

    def __init__(self, tokenizer: Tokenizer, cache_entries: int) -> None:
        self._tokenizer = tokenizer
        weight = cache_entries * TOKENS_PER_ENTRY
        self._schemas: Lru[tuple[Semantics, bytes], EncodedSchema] = Lru(cache_entries, weight)
        self._bodies: Lru[tuple[str, ...], _Body] = Lru(cache_entries, weight)
        self._head = _array(tokenizer.encode(prompt.SCHEMA_HEAD))
        self._suffix = _array(tokenizer.suffix)
        self._options_head = tokenizer.encode(prompt.OPTIONS_HEAD)
        self._option_end = tokenizer.encode(prompt.OPTION_END)
        self._field_end = tokenizer.encode(prompt.FIELD_END)
        self._option_heads: list[list[int]] = []

    def encode(self, questions: Mapping[str, Question], semantics: Semantics, stop_at: int) -> EncodedSchema:
        """The tails of one record with all questions (joint), or of one record a question (independent).

        Raises TooManyTokens as soon as one tail has more than `stop_at` tokens.
        """
        key = (semantics, _digest(questions))
        schema = self._schemas.get(key)
        if schema is None:
            schema = self._encode(questions, semantics, stop_at)
            self._schemas.put(key, schema, sum(len(tail.ids) for tail in schema.tails))
        return schema

    def _encode(self, questions: Mapping[str, Question], semantics: Semantics, stop_at: int) -> EncodedSchema:
        planned = tuple(prompt.plan_question(name, question) for name, question in questions.items())
        named = [(name, name, question) for name, question in questions.items()]
        if semantics == "joint":
            return EncodedSchema((self._tail(named, stop_at),), planned)
        neutral = [(prompt.NEUTRAL_ID, name, question) for _, name, question in named]
        return EncodedSchema(tuple(self._tail([entry], stop_at) for entry in neutral), planned)

    def _tail(self, entries: list[tuple[str, str, Question]], stop_at: int) -> Tail:
        pieces = [self._head]
        length = len(self._head)
        questions: list[tuple[int, int, int, int]] = []
        option_spans: list[Ints] = []
        for number, (shown_id, name, question) in enumerate(entries, start=1):
            head = _array(self._read(prompt.field_head(number, shown_id, question.type), length, stop_at))
            start = length + len(head)
            body = self._body(prompt.instruction(name, question), prompt.options(question), start, stop_at)
            pieces += head, body.ids
            kind, options = prompt.QUESTION_TYPES[question.type], len(body.option_spans)
            questions.append((start, start + body.question_end, kind, options))
            option_spans.append(body.option_spans + start)
            length = start + len(body.ids)
        return Tail(
            ids=np.concatenate([*pieces, self._suffix]),
            questions=_array(questions),
            option_spans=np.concatenate(option_spans),
        )

    def _body(self, instruction: str, options: list[prompt.Option], before: int, stop_at: int) -> _Body:
        key = (instruction, *map(prompt.option_text, options))
        body = self._bodies.get(key)
        if body is None:
            body = self._encode_body(key, before, stop_at)
            self._bodies.put(key, body, len(body.ids))
        return body

    def _encode_body(self, texts: tuple[str, ...], before: int, stop_at: int) -> _Body:
        instruction, *options = texts
        ids = self._read(instruction, before, stop_at)
        question_end = len(ids)
        ids += self._options_head
        spans: list[tuple[int, int]] = []
        for number, text in enumerate(options):
            ids += self._option_head(number)
            start = len(ids)
            ids += self._read(text, before + start, stop_at)
            spans.append((start, len(ids)))
            ids += self._option_end
        ids += self._field_end
        return _Body(_array(ids), question_end, _array(spans))

    def _read(self, text: str, before: int, stop_at: int) -> list[int]:
        room = max(0, stop_at - before)
        reading = read(self._tokenizer.encode, text, keep=room, stop_at=room)
        if reading.tokens > room:
            raise TooManyTokens(before + reading.tokens)
        return reading.ids

    def _option_head(self, number: int) -> list[int]:
        while len(self._option_heads) <= number:
            self._option_heads.append(self._tokenizer.encode(prompt.option_head(len(self._option_heads) + 1)))
        return self._option_heads[number]


def _digest(questions: Mapping[str, Question]) -> bytes:
    # In the order of the request, which is a part of the schema; a digest, since a schema's text may be megabytes.
    content: list[Any] = [[name, q.type, q.instructions, q.criteria] for name, q in questions.items()]
    return hashlib.blake2b(_DUMPS(content).encode(), digest_size=32).digest()


def _array(values: list[Any]) -> Ints:
    return np.array(values, dtype=np.int32)
