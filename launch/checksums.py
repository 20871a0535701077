"""Whether files hold what they must, by sha256 or by git's own hash of a file's content."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CHUNK_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Checksum:
    """`git` is the sha1 of a git blob, by which a hub knows its small files."""

    kind: Literal["sha256", "git"]
    digest: str

    def matches(self, path: Path, progress: Callable[[int], object]) -> bool:
        """Reads the file; `progress` is told the number of bytes of each piece."""
        if self.kind == "sha256":
            hasher = hashlib.sha256()
        else:
            hasher = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
        with path.open("rb") as file:
            while piece := file.read(CHUNK_BYTES):
                hasher.update(piece)
                progress(len(piece))
        return hasher.hexdigest() == self.digest


@dataclass(frozen=True)
class Findings:
    """Names of files."""

    missing: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return not self.missing and not self.wrong


def check_files(folder: Path, expected: Mapping[str, Checksum | None], progress: Callable[[int], object]) -> Findings:
    """Compares the files of a folder; those with None only have to be there."""
    missing = [name for name in expected if not (folder / name).is_file()]
    wrong = [
        name
        for name, checksum in expected.items()
        if name not in missing and checksum is not None and not checksum.matches(folder / name, progress)
    ]
    return Findings(tuple(missing), tuple(wrong))
