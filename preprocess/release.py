"""What a release directory says of itself: which revision it is, since when, and whether its weights mean anything."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
RANDOM_WEIGHTS = "RANDOM_WEIGHTS.txt"


class ReleaseError(Exception):
    """The directory holds no release."""


@dataclass(frozen=True, slots=True)
class Release:
    """`revision`: the pinned one where the download recorded it, else a sha256 of what lists the weights.

    `date`: the day, UTC, on which the weights' list was written to this disk; the files hold no other. `size_bytes`: of
    the weights, trunk and head, on this disk.
    """

    revision: str
    date: str
    size_bytes: int
    random_weights: bool

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises ReleaseError where the directory or its weights are missing."""
        weights = path / INDEX if (path / INDEX).is_file() else path / SINGLE
        if not weights.is_file():
            raise ReleaseError(f"CLEF_RELEASE: {path} holds neither {INDEX} nor {SINGLE}.")
        date = datetime.fromtimestamp(weights.stat().st_mtime, UTC).date().isoformat()
        revision = _recorded_revision(path) or hashlib.sha256(_listing(weights)).hexdigest()
        size_bytes = sum(file.stat().st_size for file in path.glob("*.safetensors"))
        return cls(revision, date, size_bytes, (path / RANDOM_WEIGHTS).is_file())


def _recorded_revision(path: Path) -> str | None:
    # The second is where huggingface_hub keeps the commit of a file that it downloaded to a plain folder.
    for record in (path / ".revision", path / ".cache/huggingface/download/config.json.metadata"):
        if record.is_file():
            lines = record.read_text(encoding="utf-8").split()
            if lines:
                return lines[0]
    return None


def _listing(weights: Path) -> bytes:
    """The index, or the header of a single safetensors file: its length in 8 bytes, then JSON."""
    with weights.open("rb") as file:
        if weights.name == INDEX:
            return file.read()
        return file.read(int.from_bytes(file.read(8), "little"))
