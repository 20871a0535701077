"""The GPU's kernels have an environment of their own: `make test-kernels` makes and uses it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

WITH_KERNELS = "WITH_KERNELS"
LARGE = "test_kernels.py"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get(WITH_KERNELS):
        return
    large = [item for item in items if item.path == Path(__file__).with_name(LARGE)]
    config.hook.pytest_deselected(items=large)
    items[:] = [item for item in items if item not in large]
