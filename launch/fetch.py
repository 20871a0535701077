"""Fetching a release's files with huggingface_hub.

Its snapshot download starts a file over when the process was killed in the middle of it. The weights are gigabytes a
file, so they are fetched by its plain HTTP download into parts of our own, which the next run continues.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import hf_hub_url, snapshot_download
from huggingface_hub.file_download import http_get
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

from launch.errors import LaunchError
from launch.releases import KnownRelease

PARTS = Path(".cache/parts")


def fetch(release: KnownRelease, folder: Path, listing: list[RepoFile]) -> None:
    """Fetches what of the listing is not in the folder. Raises what the hub's client raises."""
    large = [file for file in listing if file.lfs is not None]
    with _alone(folder):
        for file in large:
            if not (folder / file.path).is_file():
                _fetch_large(release, folder, file)
        snapshot_download(
            release.repository,
            revision=release.revision,
            local_dir=folder,
            ignore_patterns=[file.path for file in large],
        )


def parts_of(folder: Path) -> list[Path]:
    """The begun files of an interrupted download."""
    return list((folder / PARTS).glob("**/*.part"))


def _fetch_large(release: KnownRelease, folder: Path, file: RepoFile) -> None:
    part, target = folder / PARTS / f"{file.path}.part", folder / file.path
    if not target.resolve().is_relative_to(folder.resolve()):
        raise LaunchError(f"The hub lists a file outside of the release: {file.path}.")
    part.parent.mkdir(parents=True, exist_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab") as output:
        http_get(
            hf_hub_url(release.repository, file.path, revision=release.revision),
            output,
            resume_size=output.tell(),
            headers=build_hf_headers(),
            expected_size=file.size,
            displayed_filename=file.path,
        )
    part.rename(target)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two downloads would write into the same parts."""
    (folder / PARTS).mkdir(parents=True, exist_ok=True)
    with (folder / PARTS / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LaunchError(f"Another download into {folder} is running.") from None
        yield
