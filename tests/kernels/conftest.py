"""The GPU's kernels have an environment of their own: `make test-kernels` makes and uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments import leave_out_unless

WITH_KERNELS = "WITH_KERNELS"
LARGE = "test_kernels.py"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out_unless(WITH_KERNELS, Path(__file__).with_name(LARGE), config, items)
