"""Two frontends, each with a real Triton, behind a real HAProxy: one for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.docker.edge import Edge, Replica, edge, replica
from tests.stack.running import free_ports

ADDRESSES = ["127.0.0.2", "127.0.0.3"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # One worker runs them all: they share the servers, which take their time to load and to come back.
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("servers"))
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def replicas(tmp_path_factory: pytest.TempPathFactory, frontend_port: int) -> Iterator[list[Replica]]:
    folder = tmp_path_factory.mktemp("replicas")
    started = [replica(address, frontend_port, folder) for address in ADDRESSES]
    yield started
    for each in started:
        each.close()


@pytest.fixture(scope="session")
def frontend_port() -> int:
    return free_ports(1)[0]


@pytest.fixture(scope="session")
def running_edge(
    tmp_path_factory: pytest.TempPathFactory, replicas: list[Replica], frontend_port: int
) -> Iterator[Edge]:
    # A load test is one address; the rates have tests of their own.
    with edge(tmp_path_factory.mktemp("edge"), frontend_port, ADDRESSES, EDGE_ADDRESS_RATE="100000") as started:
        started.wait_for(len(replicas))
        yield started


@pytest.fixture
def all_well_again(running_edge: Edge, replicas: list[Replica]) -> Iterator[None]:
    """A test that failed on the way leaves the next one what it found."""
    yield
    for each in replicas:
        each.start_what_ended()
    running_edge.wait_for(len(replicas))


@pytest.fixture
def client(running_edge: Edge) -> Iterator[httpx.Client]:
    with running_edge.client() as client:
        yield client


@pytest.fixture
def quiet_edge(tmp_path: Path, replicas: list[Replica], frontend_port: int, running_edge: Edge) -> Iterator[Edge]:
    """An edge of the test's own, with rates that a test reaches."""
    settings = {"EDGE_KEY_RATE": "5", "EDGE_ADDRESS_RATE": "20"}
    with edge(tmp_path, frontend_port, running_edge.addresses, **settings) as started:
        started.wait_for(len(replicas))
        yield started
