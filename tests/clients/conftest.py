"""One real stack for the clients, and their own environments."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.keys import new_key, places
from tests.stack.running import Stack, free_ports, running, start_stack, wait_for

EVERY_CLIENT = "EVERY_CLIENT"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "clients: real clients in environments of their own")
    config.addinivalue_line("markers", f"slow_install: runs where {EVERY_CLIENT} is set; it installs large packages")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.clients)
            item.add_marker(pytest.mark.xdist_group("servers"))
            item.add_marker(pytest.mark.timeout(600))  # the first run installs packages
    if not os.environ.get(EVERY_CLIENT):
        slow = [item for item in items if item.get_closest_marker("slow_install")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("clients")
    with start_stack(folder, **places(folder)) as running_stack:
        yield running_stack


@pytest.fixture(scope="session")
def keyed(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a second frontend of the same Triton, which takes nobody without a key."""
    folder = tmp_path_factory.mktemp("keyed")
    new_key(folder)
    (port,) = free_ports(1)
    environment = (
        os.environ
        | places(folder)
        | {
            "TRITON_URL": f"127.0.0.1:{stack.ports.grpc}",
            "FRONTEND_PORT": str(port),
        }
    )
    log = folder / "frontend.log"
    with running([sys.executable, "-m", "frontend"], environment, log) as process:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}"
