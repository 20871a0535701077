"""The load is made of requests that the service takes, and no two states are alike."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from perf.load_data import KINDS, SHARES, body, mix, shorts
from perf.memory import any_request
from preprocess.schema import parse_request
from preprocess.settings import Settings
from tests.golden_cases import RELEASE

SETTINGS = Settings(release=RELEASE)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_request(kind):
    assert parse_request(body(KINDS[kind](random.Random(0))), SETTINGS).questions


def test_any_request_is_one():
    chance = random.Random(0)
    for _ in range(50):
        parse_request(body(any_request(chance)), SETTINGS)


def test_the_mix_has_its_shares_and_repeats_nothing():
    bodies = list(mix(sum(SHARES.values()) + 5))
    assert len(bodies) == len(set(bodies)) == sum(SHARES.values()) + 5
    assert sum(b'"images"' in one for one in bodies[: sum(SHARES.values())]) == SHARES["image"]


def test_one_seed_gives_the_same_bodies():
    assert list(shorts(3, seed=4)) == list(islice(shorts(9, seed=4), 3)) != list(shorts(3, seed=5))
