"""One real Triton and one real frontend for all tests of this folder, on the golden release and a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import tritonclient.grpc as triton_grpc

from tests.stack.running import Stack, start_stack


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # One worker runs all tests of real Tritons, here and elsewhere: two at once would share two cores, and be slow
    # enough to look dead.
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("servers"))


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with start_stack(tmp_path_factory.mktemp("stack")) as running_stack:
        yield running_stack


@pytest.fixture(scope="session")
def http(stack: Stack) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=stack.frontend, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def grpc(stack: Stack) -> Iterator[triton_grpc.InferenceServerClient]:
    client = triton_grpc.InferenceServerClient(f"127.0.0.1:{stack.ports.grpc}")
    yield client
    client.close()
