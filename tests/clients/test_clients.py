"""Every client of the list, from PyPI, against a real stack: its answers are the server's, its errors its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.registry import CLIENTS, REQUIREMENTS, Client
from tests.clients.running import run_script
from tests.stack.running import Stack


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(client, id=client.name, marks=[] if client.quick else [pytest.mark.slow_install])
        for client in CLIENTS
    ],
)
def test_a_client_reads_our_answers_and_raises_its_own_errors(
    client: Client, stack: Stack, keyed: str, tmp_path: Path
) -> None:
    script = f"use_{client.name.replace('-', '_')}.py"
    report = run_script(client.name, script, stack.frontend, tmp_path, client.environment | {"KEYED_URL": keyed})
    assert report.calls >= 2
    assert set(report.errors) == set(client.errors)


def test_every_requirements_file_is_of_a_client() -> None:
    assert {path.stem for path in REQUIREMENTS.glob("*.txt")} == {client.name for client in CLIENTS}
