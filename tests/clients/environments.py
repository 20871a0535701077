"""An environment for each client, made once from its requirements file and kept in `.cache/clients/`."""

from __future__ import annotations

from pathlib import Path

from launch.triton import REPOSITORY_ROOT
from tests.clients.registry import REQUIREMENTS
from tests.environments import environment

_ENVIRONMENTS = REPOSITORY_ROOT / ".cache" / "clients"


def client_python(name: str) -> Path:
    """The interpreter that has this client and nothing else; made again where its requirements have changed."""
    # The files name every package that is needed, so that nothing is resolved here.
    return environment(_ENVIRONMENTS / name, REQUIREMENTS / f"{name}.txt", "--no-deps")
