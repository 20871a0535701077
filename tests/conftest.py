"""What holds for every test, and must be settled before torch and hypothesis are used."""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pytest

# Two workers with two threads each on two cores spend their time waiting for each other: ten times slower, measured.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples every time, and no failure for a machine that was busy.
hypothesis.settings.register_profile("tests", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("tests")

# Which Triton the tests run, and no setting of what they test.
OF_THE_TESTS = {"CLEF_TRITON"}


@pytest.fixture(scope="session", autouse=True)
def only_the_tests_settings() -> Iterator[None]:
    """Settings come from a test alone, whatever the environment of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(("CLEF_", "OTEL_")) and name not in OF_THE_TESTS:
                patch.delenv(name)
        yield
