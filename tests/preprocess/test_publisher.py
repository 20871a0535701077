"""Ids and spans against the publisher's own encoder, on requests that hypothesis makes up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from perf.publisher import PlainTokenizer, publisher
from preprocess.encoder import Encoder
from preprocess.errors import RequestTooLarge
from preprocess.schema import parse_request
from preprocess.settings import Settings
from preprocess.tokenizer import Tokenizer
from tests.golden_cases import RELEASE
from tests.preprocess.checks import per_record
from tests.preprocess.test_tokenizer import MIXED

PIECES = [
    *("<|im_end|>", "<|im_start|>", "<think>", "</think>", "<|image_pad|>", "<|vision_start|>", "<|endoftext|>"),
    *("<tool_call>", "\n", "\n\n", " ", "  ", "\t", "\r\n", "\0", "\u2028", "\ufeff", "\u200d"),
    *("OPTION 1: ", "END FIELD\n", "STATE:\n", "ALLOWED OPTIONS:", '"', "\\", "{", "}", ":", "12", "3.5", "'s", "'LL"),
    *("The quick brown fox", "e\u0301", "\u00e9", "cafe\u0301", "नमस्ते", "환불", "שלום", "ﷺ", "😀"),
]
TEXT = st.text(max_size=12) | st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=6
)
STRUCTURES = st.lists(VALUES, max_size=3) | st.dictionaries(TEXT, VALUES, max_size=3)
TEXTS = TEXT | STRUCTURES
DESCRIPTIONS = st.none() | TEXTS
INSTRUCTIONS = st.fixed_dictionaries({}, optional={"instructions": DESCRIPTIONS})
SIDES = st.fixed_dictionaries({}, optional={"true": DESCRIPTIONS, "false": DESCRIPTIONS})
NOUL = st.fixed_dictionaries({"type": st.just("noul")}, optional={"criteria": st.none() | SIDES})
CHOICE = st.fixed_dictionaries(
    {"type": st.just("choice"), "criteria": st.dictionaries(TEXT, DESCRIPTIONS, min_size=1, max_size=5)}
)
SCORE = st.fixed_dictionaries({"type": st.just("score"), "criteria": st.lists(TEXTS, min_size=1, max_size=10)})
QUESTIONS = st.tuples(NOUL | CHOICE | SCORE, INSTRUCTIONS).map(lambda parts: parts[0] | parts[1])
REQUESTS = st.fixed_dictionaries(
    {
        "model": st.just("clef-flash"),
        "state": VALUES,
        "questions": st.dictionaries(TEXT.filter(bool), QUESTIONS, min_size=1, max_size=4),
    }
)


@pytest.fixture(scope="module")
def mixed_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer with special and plain added tokens, normalized ones among them."""
    release = tmp_path_factory.mktemp("release")
    (release / "tokenizer.json").write_text(MIXED, "utf-8")
    return release


@pytest.fixture(scope="module", params=["golden", "mixed"])
def both(request: pytest.FixtureRequest, mixed_release: Path) -> tuple[Encoder, PlainTokenizer]:
    release = RELEASE if request.param == "golden" else mixed_release
    return Encoder(Tokenizer.load(release, "reference"), 64), PlainTokenizer(release)


def ours(encoder: Encoder, body: dict[str, Any], max_length: int) -> dict[str, Any]:
    request = parse_request(json.dumps(body).encode(), Settings(release=RELEASE))
    no_images = np.zeros((0, 3), dtype=np.int32)
    encoded = encoder.encode(request, no_images, max_length=max_length, semantics="joint", overflow="truncate")
    (record,) = per_record(encoded)
    record["ids"] = [(question.id, question.options) for question in encoded.planned]
    return record


def theirs(tokenizer: PlainTokenizer, body: dict[str, Any], max_length: int) -> dict[str, Any]:
    # Through JSON, as the publisher's server would get it.
    record = publisher().encode_record(tokenizer, json.loads(json.dumps(body)), max_length=max_length)
    return {
        "input_ids": list(record.input_ids),
        "question_spans": [list(question.question_span) for question in record.questions],
        "question_types": [question.question_type for question in record.questions],
        "option_counts": [len(question.option_spans) for question in record.questions],
        "option_spans": [list(span) for question in record.questions for span in question.option_spans],
        "ids": [(question.question_id, question.option_ids) for question in record.questions],
    }


@hypothesis_settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(body=REQUESTS, max_length=st.just(16_384) | st.integers(100, 700))
def test_ids_and_spans_are_the_publishers(
    both: tuple[Encoder, PlainTokenizer], body: dict[str, Any], max_length: int
) -> None:
    encoder, tokenizer = both
    try:
        record = ours(encoder, body, max_length)
    except RequestTooLarge:
        with pytest.raises(ValueError, match="tokens before state"):
            theirs(tokenizer, body, max_length)
        return
    expected = theirs(tokenizer, body, max_length)
    assert {name: record[name] for name in expected} == expected
