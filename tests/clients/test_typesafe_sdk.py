"""The official SDK at length: answers, images, bodies, errors and retries, each in a script of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.faulty import faulty_frontend
from tests.clients.registry import CLIENTS
from tests.clients.running import Report, run_script
from tests.stack.running import Stack

ENVIRONMENT = next(client.environment for client in CLIENTS if client.name == "typesafe-sdk")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with faulty_frontend(tmp_path_factory.mktemp("faulty")) as url:
        yield url


def run(script: str, url: str, folder: Path, **environment: str) -> Report:
    return run_script("typesafe-sdk", script, url, folder, ENVIRONMENT | environment)


def test_every_type_and_structure_both_sync_and_async(stack: Stack, tmp_path: Path) -> None:
    report = run("sdk_answers.py", stack.frontend, tmp_path)
    assert report.errors == ("TypeSafeUnprocessableEntityError",) * 2


def test_images_in_state_instructions_and_criteria(stack: Stack, tmp_path: Path) -> None:
    report = run("sdk_images.py", stack.frontend, tmp_path)
    assert report.errors == ("TypeSafeUnprocessableEntityError",) * 2 + ("TypeSafeAPIError",)


def test_compressed_and_multipart_bodies(stack: Stack, tmp_path: Path) -> None:
    assert run("sdk_bodies.py", stack.frontend, tmp_path).calls == 7


def test_each_of_our_errors_is_its_own_exception(stack: Stack, faulty: str, tmp_path: Path) -> None:
    report = run("sdk_errors.py", stack.frontend, tmp_path, FAULTY_URL=faulty)
    assert report.errors == (
        "TypeSafeBadRequestError",
        "TypeSafeUnprocessableEntityError",
        "TypeSafeAPIError",
        "TypeSafeAPIError",
        "TypeSafeAPIError",
        "TypeSafeNotFoundError",
        "TypeSafeAuthenticationError",
        "TypeSafePermissionDeniedError",
        "TypeSafeRateLimitError",
        "TypeSafeInternalServerError",
        "TypeSafeInternalServerError",
        "TypeSafeInternalServerError",
    )


def test_retries_wait_as_our_headers_say(faulty: str, tmp_path: Path) -> None:
    assert run("sdk_retries.py", faulty, tmp_path, FAULTY_URL=faulty).errors == ("TypeSafeRateLimitError",)
