"""What must hold for any bytes at all: a refusal that is the caller's, or an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from clef.batch import split_records
from frontend import ollaya, openai_translation, openrouter, workers_ai
from frontend.body import unpack_gzip, unpack_zstd
from frontend.multipart import unpack
from postprocess.answers import answer
from preprocess.errors import Loc, ServiceError
from preprocess.plan import Plan
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings
from preprocess.strict_json import parse_json
from tests.golden_cases import RELEASE

QUESTION = b'{"state": "", "questions": {"q": {"type": "noul"}}}'
MAX_ERROR_BYTES = 4_000
BOUNDARY = b"x"
UNPACKED = 100_000
NAMES = ("clef-flash", "@cf/cloudflare/clef-flash")


def body(data: bytes) -> None:
    """The bytes as a request's body."""
    _hold(data, None)


def image(data: bytes) -> None:
    """The bytes as an image's file."""
    _hold(QUESTION, [data])


def dialects(data: bytes) -> None:
    """The bytes as a body in each of the other APIs."""
    with _refusals():
        value = parse_json(data)
        if isinstance(value, dict):
            for dialect in (_openai, _openrouter, _ollaya, _workers_ai):
                with _refusals():
                    dialect(value)


def multipart(data: bytes) -> None:
    """The bytes as a multipart body."""
    with _refusals():
        content, images = unpack(data, BOUNDARY, _step().settings)
        _hold(content, images)


def packed(data: bytes) -> None:
    """The bytes as a gzip and as a zstd body."""
    for unpacked in (unpack_gzip, unpack_zstd):
        with _refusals():
            assert len(unpacked(data, UNPACKED)) <= UNPACKED


def _openai(value: dict[str, Any]) -> None:
    asked = openai_translation.to_systemone(value)
    response = _hold(asked.body, None, asked.move)
    if response is not None:
        json.loads(openai_translation.from_systemone(response, asked))


def _openrouter(value: dict[str, Any]) -> None:
    asked = openrouter.to_systemone(value, NAMES)
    _hold(asked.body, None, asked.move)


def _ollaya(value: dict[str, Any]) -> None:
    asked = ollaya.to_systemone(value, NAMES)
    response = _hold(asked.body, None) if asked.body is not None else None
    if response is not None:
        json.dumps(ollaya.from_systemone(response, asked.model, total_ns=1, eval_ns=1))


def _workers_ai(value: dict[str, Any]) -> None:
    response = _hold(workers_ai.to_systemone(value, NAMES[0], NAMES[0]), None)
    if response is not None:
        json.loads(workers_ai.from_systemone(response))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "body": body,
    "image": image,
    "dialects": dialects,
    "multipart": multipart,
    "packed": packed,
}


@cache
def _step() -> Preprocessor:
    # As many pixels as keep one input under a second.
    return Preprocessor(Settings(release=RELEASE, max_image_pixels=2_000_000, schema_cache_entries=16))


def _hold(request: bytes, images: Sequence[bytes] | None, move: Callable[[Loc], Loc] = lambda loc: loc) -> bytes | None:
    """The response where the other steps take the request; None where it is refused. `move`: a dialect's of places."""
    with _refusals(move):
        tensors = _step()(request, images, {})
        records = split_records(tensors)
        plan = Plan.from_json(tensors["PLAN"][0])
        response, probabilities = answer(plan, np.zeros(sum(record.options for record in records), np.float32))
        assert len(json.loads(response)["answers"]) == len(plan.questions)
        assert np.isfinite(probabilities).all()
        return response
    return None


@contextmanager
def _refusals(move: Callable[[Loc], Loc] = lambda loc: loc) -> Iterator[None]:
    """Lets a refusal pass that is the caller's and fits into an error."""
    try:
        yield
    except ServiceError as error:
        told = json.loads(error.to_json())
        assert 400 <= error.status < 500, told
        assert len(error.to_json().encode()) <= MAX_ERROR_BYTES
        for issue in told["detail"] if error.status == 422 else ():
            assert all(isinstance(part, str | int) for part in move(issue["loc"]))
