"""Image patches are held to what the shared memory has room for; an operator's own lower value stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from adapter.shared_memory import IN_FLIGHT, RESERVED_BYTES, bounded, fitted, free_bytes
from clef.settings import ModelSettings
from preprocess.settings import MIB, Settings
from tests.golden_cases import RELEASE

# What one request may hold beside its patches, under the defaults.
BODY = 13 * MIB + 8 * MIB
BY_TOKENS = 16_384 * 4 * 768


def bytes_of(free: int, **settings: int) -> int | None:
    return fitted(Settings(release=RELEASE, **settings), free).max_patches_bytes


def test_plenty_of_memory_leaves_the_tokens_to_bound() -> None:
    assert bytes_of(1 << 40) == BY_TOKENS
    assert bytes_of(1 << 40, max_length=100) == 100 * 4 * 768
    assert bytes_of(1 << 40, videos=True) == 2 * BY_TOKENS


def test_little_memory_holds_several_requests_of_the_largest_size() -> None:
    free = 64 * MIB
    most = bytes_of(free)
    assert most is not None and 0 < most < BY_TOKENS
    assert RESERVED_BYTES + BODY + (IN_FLIGHT + 1) * most <= free < RESERVED_BYTES + BODY + (IN_FLIGHT + 1) * (most + 1)


@pytest.mark.parametrize("free", [0, 1, RESERVED_BYTES + BODY])
def test_no_room_leaves_no_image_and_a_limit_that_says_so(free: int) -> None:
    assert bytes_of(free) == 1


def test_an_operators_value_is_lowered_and_never_raised() -> None:
    fits = bytes_of(64 * MIB)
    assert fits is not None
    assert bytes_of(64 * MIB, max_patches_bytes=fits - 1) == fits - 1
    assert bytes_of(64 * MIB, max_patches_bytes=fits + 1) == fits
    assert bytes_of(1 << 40, max_patches_bytes=BY_TOKENS + 1) == BY_TOKENS


def test_what_is_taken_at_once_leaves_room_for_what_arrives_and_what_is_prepared() -> None:
    requests, model = Settings(release=RELEASE), ModelSettings(release=RELEASE)
    free = 64 * MIB
    together = bounded(model, requests, free).max_waiting_patches_bytes
    one = bytes_of(free)
    assert one is not None and one < together
    assert RESERVED_BYTES + BODY + together + 2 * one <= free
    assert bounded(model, requests, 1 << 40) == model
    assert bounded(model, requests, 0).max_waiting_patches_bytes == 1
    lower = model.model_copy(update={"max_waiting_patches_bytes": 5})
    assert bounded(lower, requests, free) == lower


def test_nothing_else_changes() -> None:
    settings = Settings(release=RELEASE)
    assert fitted(settings, 64 * MIB).model_dump(exclude={"max_patches_bytes"}) == settings.model_dump(
        exclude={"max_patches_bytes"}
    )


def test_the_free_bytes_are_the_file_systems(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    assert 0 < free_bytes(tmp_path) <= found.f_blocks * found.f_frsize
