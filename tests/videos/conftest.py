"""The extra for videos has an environment of its own, of several gigabytes: `make test-videos` makes and uses it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

WITH_VIDEOS = "WITH_VIDEOS"
LARGE = "test_extra.py"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get(WITH_VIDEOS):
        return
    large = [item for item in items if item.path == Path(__file__).with_name(LARGE)]
    config.hook.pytest_deselected(items=large)
    items[:] = [item for item in items if item not in large]
