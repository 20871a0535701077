"""What must hold of the preprocess step for any bytes at all, from its input to an answer's JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from clef.batch import split_records
from postprocess.answers import answer
from preprocess.errors import ServiceError
from preprocess.plan import Plan
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings
from tests.golden_cases import RELEASE

QUESTION = b'{"state": "", "questions": {"q": {"type": "noul"}}}'
MAX_ERROR_BYTES = 4_000


def body(data: bytes) -> None:
    """The bytes as a request's body."""
    _hold(data, None)


def image(data: bytes) -> None:
    """The bytes as an image's file."""
    _hold(QUESTION, [data])


TARGETS: dict[str, Callable[[bytes], None]] = {"body": body, "image": image}


@cache
def _step() -> Preprocessor:
    # As many pixels as keep one input under a second.
    return Preprocessor(Settings(release=RELEASE, max_image_pixels=2_000_000, schema_cache_entries=16))


def _hold(request: bytes, images: Sequence[bytes] | None) -> None:
    """A refusal that is the caller's and fits into an error, or tensors that the other steps take."""
    try:
        tensors = _step()(request, images, {})
    except ServiceError as error:
        told = json.loads(error.to_json())
        assert 400 <= error.status < 500, told
        assert len(error.to_json().encode()) <= MAX_ERROR_BYTES
        return
    records = split_records(tensors)
    plan = Plan.from_json(tensors["PLAN"][0])
    response, probabilities = answer(plan, np.zeros(sum(record.options for record in records), np.float32))
    assert len(json.loads(response)["answers"]) == len(plan.questions)
    assert np.isfinite(probabilities).all()
