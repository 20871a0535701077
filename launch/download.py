"""`python -m launch download`: a release from the Hugging Face Hub, at its pinned revision, every file checked.

Files with a sha256 in `releases.py` must have it, whatever the hub says; the others are checked by the hash that the
hub's listing of the revision gives. A folder that is complete is verified without the network.
"""

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from httpx2 import HTTPError
from huggingface_hub import HfApi, constants, get_cached_repo_tree, get_session
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils.tqdm import tqdm

from launch.checksums import Checksum, Findings, check_files
from launch.errors import LaunchError
from launch.fetch import fetch, parts_of
from launch.releases import RELEASES, KnownRelease

REVISION_FILE = ".revision"
SHOWN_NAMES = 4
CONNECT_TIMEOUT_S = 10


def download(name: str, folder: Path, say: Callable[[str], None]) -> None:
    """Brings the release `name` into `folder`, or verifies that it is there. Raises LaunchError.

    What is there and right stays; a download that was interrupted goes on where it was, also within a file.
    """
    if name not in RELEASES:
        raise LaunchError(f"There is no release {name!r}; there are {', '.join(RELEASES)}.")
    release = RELEASES[name]
    listing = _cached_listing(release, folder)
    findings = _verify(release, listing, folder) if folder.is_dir() else _nothing_there(release)
    if not findings.complete:
        if constants.is_offline_mode():
            raise LaunchError(f"HF_HUB_OFFLINE is set, and {folder} is not complete: {_describe(findings)}. Unset it.")
        if findings.wrong and not listing and not (folder / REVISION_FILE).is_file():
            raise LaunchError(
                f"{folder} holds other files named as a release's ({_shorten(findings.wrong)}): choose another folder."
            )
        _remove(folder, findings.wrong)
        with _sentences_for(release):
            listing = listing or _listing(release)
            _check_space(folder, listing)
            say(f"downloading {release.repository} at {release.revision[:12]} to {folder}")
            fetch(release, folder, listing)
        findings = _verify(release, listing, folder)
    if not findings.complete:
        _remove(folder, findings.wrong)
        raise LaunchError(
            f"The download is not what it must be: {_describe(findings)}. Wrong files were removed; run the same "
            "command again to fetch them anew."
        )
    (folder / REVISION_FILE).write_text(f"{release.revision}\n")
    say(f"{folder} holds {release.repository} at {release.revision[:12]}, verified: make serve RELEASE={folder}")


def _listing(release: KnownRelease) -> list[RepoFile]:
    # Asked once without the client's retries: no network at all is said at once.
    get_session().head(constants.ENDPOINT, timeout=CONNECT_TIMEOUT_S)
    entries = HfApi().list_repo_tree(release.repository, recursive=True, revision=release.revision)
    return [entry for entry in entries if isinstance(entry, RepoFile)]


def _cached_listing(release: KnownRelease, folder: Path) -> list[RepoFile]:
    """The listing that an earlier download left in the folder; empty where there is none."""
    try:
        return get_cached_repo_tree(release.repository, revision=release.revision, local_dir=folder)
    except CachedRepoTreeNotFoundError:
        return []


def _expected(release: KnownRelease, listing: list[RepoFile]) -> dict[str, Checksum | None]:
    expected: dict[str, Checksum | None] = dict.fromkeys(release.unpinned)
    for file in listing:
        expected[file.path] = Checksum("sha256", file.lfs.sha256) if file.lfs else Checksum("git", file.blob_id)
    return expected | {name: Checksum("sha256", digest) for name, digest in release.sha256.items()}


def _verify(release: KnownRelease, listing: list[RepoFile], folder: Path) -> Findings:
    expected = _expected(release, listing)
    total = sum((folder / name).stat().st_size for name in expected if (folder / name).is_file())
    with tqdm(total=total, unit="B", unit_scale=True, desc="Verifying", disable=None) as bar:  # type: ignore[no-untyped-call]
        return check_files(folder, expected, bar.update)


def _nothing_there(release: KnownRelease) -> Findings:
    return Findings(missing=tuple(_expected(release, [])), wrong=())


def _remove(folder: Path, names: tuple[str, ...]) -> None:
    """With the hub's note that the file is there, which would keep it from being fetched again."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
        (folder / ".cache/huggingface/download" / f"{name}.metadata").unlink(missing_ok=True)


def _check_space(folder: Path, listing: list[RepoFile]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = sum(file.size for file in listing if not (folder / file.path).is_file())
    begun = sum(part.stat().st_size for part in parts_of(folder))
    free = shutil.disk_usage(folder).free
    if free < wanted - begun:
        raise LaunchError(
            f"{folder} has {free / 1e9:.1f} GB free, and the release needs {(wanted - begun) / 1e9:.1f} GB more: "
            "choose a folder on another disk."
        )


def _describe(findings: Findings) -> str:
    parts = [("missing", findings.missing), ("not as published", findings.wrong)]
    return "; ".join(f"{what}: {_shorten(names)}" for what, names in parts if names)


def _shorten(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(names[:SHOWN_NAMES]) + more


@contextmanager
def _sentences_for(release: KnownRelease) -> Iterator[None]:
    """Turns what the hub's client raises into sentences."""
    again = "What has arrived stays: the same command goes on from there."
    try:
        yield
    except GatedRepoError:
        raise LaunchError(
            f"{release.repository} asks for an account: accept its terms on {constants.ENDPOINT}/{release.repository} "
            "and set HF_TOKEN."
        ) from None
    except (RepositoryNotFoundError, RevisionNotFoundError):
        raise LaunchError(
            f"{constants.ENDPOINT} does not have {release.repository} at revision {release.revision}, or not for this "
            "user (HF_TOKEN)."
        ) from None
    except HfHubHTTPError as error:
        raise LaunchError(f"{constants.ENDPOINT} answered {error.response.status_code}. {again}") from None
    except (HTTPError, LocalEntryNotFoundError, FileMetadataError) as error:
        raise LaunchError(
            f"{constants.ENDPOINT} cannot be reached ({type(error).__name__}): check the network and, where there is "
            f"one, the proxy (HTTPS_PROXY). {again}"
        ) from None
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise LaunchError(f"The disk is full. {again}") from None
