"""Every section of the measurement by name, in the order of the report.

A section is a module with `TITLE`, `measure(quick) -> data` (JSON's types) and `report(data) -> Markdown`. Modules are
imported when they are used: some bring torch.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

NAMES = (
    "overhead",
    "profile_request",
    "throughput",
    "mixed_lengths",
    "sweeps",
    "cost",
    "state_cache",
    "response_cache",
    "encoder",
    "head",
    "images",
    "memory",
    "cold_start",
)


class Section(Protocol):
    """What a section's module has."""

    TITLE: str

    def measure(self, quick: bool) -> Any:
        """Takes the measurement; `quick`: only to see that it runs."""

    def report(self, data: Any) -> str:
        """The measurement as Markdown."""


class StateCache:
    """`perf.state_cache`, which measures the model alone and reports as it measures."""

    TITLE = "State cache"

    def measure(self, quick: bool) -> Any:
        from perf.stack import BENCH_RELEASE, make_release

        make_release(BENCH_RELEASE)
        return importlib.import_module("perf.state_cache").measure(BENCH_RELEASE)

    def report(self, data: Any) -> str:
        return str(data)


def section(name: str) -> Section:
    if name == "state_cache":
        return StateCache()
    module: Any = importlib.import_module(f"perf.{name}")
    return module  # type: ignore[no-any-return]
