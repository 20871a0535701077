"""jevcompat's suite: conformant always, every SHOULD where the settings are TypeSafe's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.conformance import REPORT, Run, render, run_suite, strict_stack
from tests.stack.running import Stack


@pytest.fixture(scope="module")
def defaults(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_suite(stack.frontend, tmp_path_factory.mktemp("defaults"))


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder: Path = tmp_path_factory.mktemp("strict")
    with strict_stack(folder) as (stack, key):
        yield run_suite(stack.frontend, folder, key)


def test_conformant_under_the_defaults_but_for_the_models_own_confidence(defaults: Run) -> None:
    assert defaults.verdict == "conformant", defaults.evidence
    assert defaults.named("MUST", "fail") == []
    assert defaults.named("MUST", "skip") == ["auth.bearer"]
    assert defaults.named("SHOULD", "fail") == ["confidence.formula"], defaults.evidence


def test_every_should_under_independent_semantics_and_typesafe_confidence(strict: Run) -> None:
    assert strict.verdict == "conformant", strict.evidence
    assert strict.named("MUST", "fail") == []
    assert strict.named("MUST", "skip") == ["auth.ignored-when-off"]
    assert strict.named("SHOULD", "fail") == [], strict.evidence
    assert strict.named("SHOULD", "skip") == []


def test_the_kept_report_is_what_the_suite_says(defaults: Run, strict: Run) -> None:
    assert REPORT.read_text("utf-8") == render(defaults, strict), "python -m tests.clients.conformance"
