"""Tests of the launcher. Those that start servers run in one worker, one after another."""

import socket
from contextlib import ExitStack

import pytest


@pytest.fixture
def free_ports() -> list[int]:
    """Four ports of the loopback address that were free a moment ago, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(4)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
