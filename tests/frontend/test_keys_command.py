"""`python -m frontend.keys`, run as an operator runs it."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from frontend import keyfile
from frontend.errors import AuthenticationFailed
from frontend.keyfile import SHIPPED_TIERS, KeyFile, hash_of
from frontend.keyring import KeyRing
from frontend.tiers import Tier
from tests.frontend.keyfiles import written

ROOT = Path(__file__).parents[2]


def keys(*arguments: str, file: Path) -> subprocess.CompletedProcess[str]:
    """The command, run as an operator runs it."""
    return subprocess.run(
        [sys.executable, "-m", "frontend.keys", *arguments],
        cwd=ROOT,
        env={**os.environ, "SYSTEMONE_KEYS": str(file)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc" / "keys.json"


def test_add_shows_the_key_once_and_keeps_its_hash(path: Path) -> None:
    added = keys("add", "alice", file=path)
    assert added.returncode == 0, added.stderr
    key = added.stdout.strip()
    assert re.fullmatch(r"clef_[\w-]{43}", key)
    text = path.read_text()
    assert key not in text and key.removeprefix("clef_") not in text
    assert hash_of(key) in text
    assert key not in keys("list", file=path).stdout + added.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["keys.json"]
    assert KeyRing(path).authenticate(f"Bearer {key}", None).key_name == "alice"


def test_a_new_file_brings_the_public_tier_unless_told_not_to(path: Path, tmp_path: Path) -> None:
    added = keys("add", "alice", file=path)
    assert "Callers without a key get the tier 'public'." in added.stderr
    assert KeyRing(path).authenticate(None, None).tier == Tier(
        questions=16, images=1, tokens=8192, decisions_per_minute=30
    )
    closed = tmp_path / "closed.json"
    added = keys("add", "alice", "--no-public", file=closed)
    assert "Callers without a key are refused." in added.stderr
    with pytest.raises(AuthenticationFailed):
        KeyRing(closed).authenticate(None, None)


def test_list_and_revoke(path: Path) -> None:
    for name in ("alice", "bob"):
        assert keys("add", name, file=path).returncode == 0
    listed = [line.split("\t") for line in keys("list", file=path).stdout.splitlines()]
    assert [(name, tier) for name, tier, _ in listed] == [("alice", "standard"), ("bob", "standard")]
    assert keys("revoke", "alice", file=path).returncode == 0
    assert [line.split("\t")[0] for line in keys("list", file=path).stdout.splitlines()] == ["bob"]


NAMES = "A key's name is 1 to 64 letters, digits and . _ @ -, the first one a letter or digit."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "alice"), "There is a key named alice already."),
        (("add", "two words"), NAMES),
        (("add", "a" * 65), NAMES),
        (("add", ""), NAMES),
        (("add", "bob", "--tier", "platinum"), "There is no tier named platinum; the file has public, standard."),
        (("revoke", "nobody"), "There is no key named nobody."),
    ],
)
def test_a_refused_command_says_why_and_changes_nothing(path: Path, arguments: tuple[str, ...], said: str) -> None:
    written(path, KeyFile(tiers=SHIPPED_TIERS), tier="standard")
    before = path.read_bytes()
    refused = keys(*arguments, file=path)
    assert (refused.returncode, refused.stdout, refused.stderr) == (1, "", f"{said}\n")
    assert path.read_bytes() == before


def test_a_tier_of_a_new_file_is_checked_too(path: Path) -> None:
    refused = keys("add", "alice", "--tier", "public", "--no-public", file=path)
    assert (refused.returncode, refused.stderr) == (1, "There is no tier named public; the file has standard.\n")
    assert not path.exists()


@pytest.mark.parametrize("arguments", [("list",), ("revoke", "alice")])
def test_a_missing_file_is_said(path: Path, arguments: tuple[str, ...]) -> None:
    refused = keys(*arguments, file=path)
    said = f"There is no key file {path}. 'add' makes it; --file or SYSTEMONE_KEYS says where it is.\n"
    assert (refused.returncode, refused.stdout, refused.stderr) == (1, "", said)


@pytest.mark.parametrize("arguments", [("add", "alice"), ("list",), ("revoke", "alice")])
def test_a_missing_folder_is_said_and_not_made(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    refused = keys(*arguments, file=tmp_path / "none" / "keys.json")
    said = f"There is no folder {tmp_path}/none for the key file.\n"
    assert (refused.returncode, refused.stdout, refused.stderr) == (1, "", said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("add", "alice"), ("list",), ("revoke", "alice")])
def test_a_file_that_is_none_is_said(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    refused = keys(*arguments, file=tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == f"The key file {tmp_path} cannot be used: is a directory.\n"


def test_commands_at_the_same_time_lose_no_key(path: Path) -> None:
    names = [f"key{number}" for number in range(6)]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "frontend.keys", "add", name, "--file", str(path)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        for name in names
    ]
    assert [process.wait(60) for process in running] == [0] * len(names)
    assert sorted(entry.name for entry in keyfile.read(path).keys) == names
