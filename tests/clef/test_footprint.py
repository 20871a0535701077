"""Bytes by arithmetic. That they are what a prefix really takes is tested where prefixes are computed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from clef.footprint import CHUNK, SHORTEST, Footprint


def config(attention: int, key_values: int, value_heads: int) -> SimpleNamespace:
    """The trunk of a published release, by what differs between the two."""
    return SimpleNamespace(
        layer_types=["linear_attention", "linear_attention", "linear_attention", "full_attention"] * attention,
        num_key_value_heads=key_values,
        head_dim=256,
        linear_num_key_heads=16,
        linear_num_value_heads=value_heads,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
    )


NINE = Footprint.of(config(attention=8, key_values=4, value_heads=32), width=1024, trunk_bytes=2)
TWENTY_SEVEN = Footprint.of(config(attention=16, key_values=4, value_heads=48), width=1024, trunk_bytes=2)


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
