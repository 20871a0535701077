"""`python -m launch download` as a process, against a small hub over HTTP."""

import hashlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launch.releases import RELEASES
from tests.launch.hub import Hub, running_hub

REVISION = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b'{"architectures": []}',
    "generation_config.json": b"{}",
    "model.safetensors": random.Random(1).randbytes(25_000_000),
}
# The command line with one more release, whose files the hub above can have.
PROGRAM = f"""
from launch.__main__ import main
from launch.releases import RELEASES, KnownRelease
RELEASES["small"] = KnownRelease("Someone/small", "{REVISION}", {{
    name: digest for name, digest in { ({n: hashlib.sha256(c).hexdigest() for n, c in FILES.items()})!r}.items()
    if name != "generation_config.json"
}})
main()
"""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running_hub("Someone/small", REVISION, dict(FILES)) as running:
        yield running


def start_download(url: str, folder: Path, name: str = "small", **environment: str) -> subprocess.Popen[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "TRANSFORMERS_"))}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "download", name, "--dir", str(folder)],
        env=clean | {"HF_ENDPOINT": url, "HF_HOME": str(folder.parent / "home")} | environment,
        stderr=subprocess.PIPE,
        text=True,
    )


def download(url: str, folder: Path, name: str = "small", **environment: str) -> tuple[int, str]:
    """The exit status, and what was said."""
    with start_download(url, folder, name, **environment) as process:
        _, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    return process.returncode, said


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def assert_complete(folder: Path) -> None:
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES
    assert (folder / ".revision").read_text() == f"{REVISION}\n"


def test_a_download_is_complete_verified_and_then_needs_no_network(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    status, said = download(hub.url, folder)
    assert (status, f"make serve RELEASE={folder}" in said) == (0, True), said
    assert_complete(folder)
    sent = dict(hub.sent)
    assert sent == {name: len(content) for name, content in FILES.items()}
    assert download("http://127.0.0.1:9", folder)[0] == 0
    assert download(hub.url, folder, HF_HUB_OFFLINE="1")[0] == 0
    assert dict(hub.sent) == sent


def test_a_killed_download_goes_on_where_it_was(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    hub.stall_after["model.safetensors"] = 21_000_000
    with start_download(hub.url, folder) as process:
        part = folder / ".cache" / "parts" / "model.safetensors.part"
        wait_until(lambda: part.exists() and part.stat().st_size > 10_000_000)
        status, said = download(hub.url, folder)
        assert (status, said.splitlines()[-1]) == (1, f"error: Another download into {folder} is running.")
        process.kill()
    hub.released.set()
    assert download(hub.url, folder)[0] == 0
    assert_complete(folder)
    first, second = (start for name, start in hub.starts if name == "model.safetensors")
    assert first == 0
    assert second > 10_000_000


def test_files_that_are_there_and_right_are_kept(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    assert download(hub.url, folder)[0] == 0
    (folder / "config.json").unlink()
    assert download(hub.url, folder)[0] == 0
    assert_complete(folder)
    assert hub.sent["model.safetensors"] == len(FILES["model.safetensors"])


@pytest.mark.parametrize("name", list(FILES))
def test_a_file_that_rotted_on_disk_is_fetched_anew(hub: Hub, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "release"
    assert download(hub.url, folder)[0] == 0
    rotten = bytearray(FILES[name])
    rotten[-1] ^= 1
    stat = (folder / name).stat()
    (folder / name).write_bytes(rotten)
    os.utime(folder / name, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # nothing but the content tells
    status, said = download(hub.url, folder, HF_HUB_OFFLINE="1")
    assert status == 1
    assert f"HF_HUB_OFFLINE is set, and {folder} is not complete: not as published: {name}" in said
    assert download(hub.url, folder)[0] == 0
    assert_complete(folder)
    assert hub.sent[name] == 2 * len(FILES[name])


def test_a_hub_that_serves_another_file_is_not_believed(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    hub.files["model.safetensors"] = FILES["model.safetensors"][::-1]
    status, said = download(hub.url, folder)
    assert status == 1
    assert "not as published: model.safetensors" in said
    assert not (folder / "model.safetensors").exists()
    assert not (folder / ".revision").exists()


def test_a_file_without_a_pinned_sum_is_checked_by_the_hubs_listing(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    hub.etags["generation_config.json"] = hub.etag("generation_config.json")
    hub.files["generation_config.json"] = b"[]"
    status, said = download(hub.url, folder)
    assert status == 1
    assert "not as published: generation_config.json" in said


def test_a_folder_of_other_files_is_left_alone(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text("my own")
    status, said = download(hub.url, folder)
    assert status == 1
    assert "choose another folder" in said
    assert {path.name for path in folder.iterdir()} == {"config.json"}
    assert not hub.sent


def test_offline_says_what_is_missing(hub: Hub, tmp_path: Path) -> None:
    status, said = download(hub.url, tmp_path / "release", HF_HUB_OFFLINE="1")
    assert status == 1
    assert "HF_HUB_OFFLINE is set" in said
    assert "missing: generation_config.json, config.json, model.safetensors" in said


def test_no_network(tmp_path: Path) -> None:
    status, said = download("http://127.0.0.1:9", tmp_path / "release")
    assert status == 1
    assert said.startswith("error: http://127.0.0.1:9 cannot be reached")


@pytest.mark.parametrize(("answer", "sentence"), [(403, "answered 403"), (404, "does not have Someone/small")])
def test_a_hub_that_refuses(hub: Hub, tmp_path: Path, answer: int, sentence: str) -> None:
    if answer == 404:
        hub.repository = "Someone/else"
    else:
        hub.status = answer
    status, said = download(hub.url, tmp_path / "release")
    assert status == 1
    assert sentence in said


def test_a_disk_that_is_too_small(hub: Hub, tmp_path: Path) -> None:
    hub.sizes["model.safetensors"] = 10**18
    status, said = download(hub.url, tmp_path / "release")
    assert status == 1
    assert "GB free, and the release needs 1000000000.0 GB more" in said


def test_an_unknown_release(tmp_path: Path) -> None:
    status, said = download("http://127.0.0.1:9", tmp_path / "release", name="clef-mini")
    assert (status, said) == (1, "error: There is no release 'clef-mini'; there are clef-flash, clef, small.\n")


@pytest.mark.parametrize("name", ["clef-flash", "clef"])
def test_the_table_is_whole(name: str) -> None:
    release = RELEASES[name]
    shards = sorted(file for file in release.sha256 if file.startswith("model-"))
    assert shards == [f"model-{i:05}-of-{len(shards):05}.safetensors" for i in range(1, len(shards) + 1)]
    assert len(set(release.sha256.values())) == len(release.sha256)
    assert all(len(bytes.fromhex(digest)) == 32 for digest in release.sha256.values())
    assert len(bytes.fromhex(release.revision)) == 20
