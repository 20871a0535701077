"""Bytes by arithmetic. That they are what a prefix really takes is tested where prefixes are computed."""

from __future__ import annotations

import pytest

from clef.footprint import CHUNK, SHORTEST, Footprint
from launch.published import PUBLISHED

NINE, TWENTY_SEVEN = PUBLISHED["clef-flash"].footprint, PUBLISHED["clef"].footprint


@pytest.mark.parametrize(
    ("release", "token", "recurrent", "channels", "layers", "spacing"),
    [(NINE, 36_864, 50_331_648, 8192, 24, 1408), (TWENTY_SEVEN, 69_632, 150_994_944, 10_240, 48, 2240)],
)
def test_the_published_releases(
    release: Footprint, token: int, recurrent: int, channels: int, layers: int, spacing: int
) -> None:
    assert release.token == token
    assert release.boundary == recurrent + layers * channels * 3 * 2
    assert release.spacing == spacing


@pytest.mark.parametrize("release", [NINE, TWENTY_SEVEN, Footprint(1280, 33_792), Footprint(10, 64 * 10 * 20 + 1)])
def test_boundaries_take_no_more_than_the_tokens_between_them(release: Footprint) -> None:
    assert release.spacing % CHUNK == 0 and release.spacing >= SHORTEST
    assert release.boundary <= release.spacing * release.token
    assert release.spacing == SHORTEST or release.boundary > (release.spacing - CHUNK) * release.token


def test_a_prefix_has_a_boundary_at_its_end_too() -> None:
    small = Footprint(token=10, boundary=1000)
    assert [small.prefix(length) for length in (1, 512, 513)] == [1010, 6120, 7130]


def test_a_state_of_four_thousand_tokens() -> None:
    assert round(NINE.prefix(4000) / 1e6) == 302 and round(TWENTY_SEVEN.prefix(4000) / 1e6) == 586
