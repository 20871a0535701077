"""The extra for videos has an environment of its own, of several gigabytes: `make test-videos` makes and uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments import leave_out_unless

WITH_VIDEOS = "WITH_VIDEOS"
LARGE = "test_extra.py"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out_unless(WITH_VIDEOS, Path(__file__).with_name(LARGE), config, items)
