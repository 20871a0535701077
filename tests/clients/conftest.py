"""One real stack for the clients, and their own environments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stack.running import Stack, start_stack

EVERY_CLIENT = "EVERY_CLIENT"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "clients: real clients in environments of their own")
    config.addinivalue_line("markers", f"slow_install: runs where {EVERY_CLIENT} is set; it installs large packages")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.clients)
            item.add_marker(pytest.mark.xdist_group("clients"))
            item.add_marker(pytest.mark.timeout(600))  # the first run installs packages
    if not os.environ.get(EVERY_CLIENT):
        slow = [item for item in items if item.get_closest_marker("slow_install")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with start_stack(tmp_path_factory.mktemp("clients")) as running_stack:
        yield running_stack
