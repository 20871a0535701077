"""The measurements as they were taken: one JSON file a section under `perf/results/`, CSV files of sweeps beside it."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Measurement:
    """What a section found, with how and where."""

    section: str
    command: str
    machine: Mapping[str, Any]
    seconds: float
    quick: bool
    """Taken with few repeats, to see that it runs: its figures mean little."""
    data: Any

    def save(self, folder: Path = RESULTS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(vars(self), indent=1, ensure_ascii=False)
        (folder / f"{self.section}.json").write_text(f"{text}\n", encoding="utf-8")

    @classmethod
    def load(cls, section: str, folder: Path = RESULTS) -> Self | None:
        """None where the section has not been measured."""
        path = folder / f"{section}.json"
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def save_csv(name: str, rows: Sequence[Mapping[str, Any]], folder: Path = RESULTS) -> None:
    """Rows with the same keys, as `NAME.csv`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
