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
    "peak_memory",
    "cold_start",
)


class Section(Protocol):
    """What a section's module has."""

    TITLE: str

    def measure(self, quick: bool) -> Any:
        """Takes the measurement; `quick`: only to see that it runs."""

    def report(self, data: Any) -> str:
        """The measurement as Markdown."""


def section(name: str) -> Section:
    module: Any = importlib.import_module(f"perf.{name}")
    return module  # type: ignore[no-any-return]
