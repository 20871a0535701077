"""The key file and its ring: who a caller is, and what a file that comes to harm does."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from frontend import keyfile
from frontend.app import create_app
from frontend.errors import AuthenticationFailed
from frontend.keyfile import KeyFile, KeyFileError, hash_of
from frontend.keyring import KeyRing
from frontend.settings import Settings, SettingsError
from frontend.tiers import Tier
from tests.frontend.fakes import FakeTriton
from tests.frontend.keyfiles import GOLD, written

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc" / "keys.json"


def hide_in_a_loop(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path)


def hide_below_a_file(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.write_text("")


# Whether there is a key file cannot be told.
HIDINGS = {"a loop of links": hide_in_a_loop, "below a file": hide_below_a_file}


# The ring


def test_without_a_file_everybody_may_call_at_no_rate_and_a_header_is_ignored(path: Path) -> None:
    ring = KeyRing(path)
    for header in (None, "Bearer clef_any", "Basic eDp5"):
        caller = ring.authenticate(header, "192.0.2.1")
        assert caller.key_name is None
        assert caller.tier == Tier()
        assert caller.tier.parameters() == {}


def test_a_key_is_its_name_and_its_tier(path: Path) -> None:
    key = written(path, KeyFile(tiers={"gold": GOLD}))
    caller = KeyRing(path).authenticate(f"Bearer {key}", "192.0.2.1")
    assert (caller.key_name, caller.account, caller.tier) == ("alice", "key:alice", GOLD)
    assert caller.tier.parameters() == {"max_questions": 64}


@pytest.mark.parametrize("form", ["bearer {}", "BEARER {}", "Bearer   {}  "])
def test_the_scheme_is_read_as_http_says(path: Path, form: str) -> None:
    key = written(path, KeyFile(tiers={"gold": GOLD}))
    assert KeyRing(path).authenticate(form.format(key), None).key_name == "alice"


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize(
    "header",
    [
        *("Bearer clef_wrong", "Bearer {}x", "Bearer x{}", "Bearer \udcff", "Bearer é"),
        *("Bearer", "Bearer ", "bearer", "Basic {}", "Basic", "{}", "Token {}"),
    ],
)
def test_a_wrong_key_is_refused_even_where_none_is_needed(path: Path, header: str, public: bool) -> None:
    key = written(path, KeyFile(tiers={"gold": GOLD} | ({"public": Tier()} if public else {})))
    with pytest.raises(AuthenticationFailed) as refused:
        KeyRing(path).authenticate(header.format(key), None)
    assert refused.value.status == 401
    assert isinstance(refused.value.detail, dict)
    assert refused.value.detail["error_type"] == "authentication_error"
    assert key not in refused.value.detail["message"]


@pytest.mark.parametrize("header", [None, "", " "])
def test_without_a_key_a_caller_is_of_the_public_tier_or_refused(path: Path, header: str | None) -> None:
    public = Tier(questions=16, images=1, tokens=8192, decisions_per_minute=30)
    written(path, KeyFile(tiers={"gold": GOLD, "public": public}))
    caller = KeyRing(path).authenticate(header, "192.0.2.1")
    assert (caller.key_name, caller.tier) == (None, public)
    assert caller.tier.parameters() == {"max_questions": 16, "max_images": 1, "max_length": 8192}
    written(path, KeyFile(tiers={"gold": GOLD}))
    with pytest.raises(AuthenticationFailed, match="A key is required"):
        KeyRing(path).authenticate(header, "192.0.2.1")


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("2001:db8::1", "2001:db8::2:1", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        (None, "unix:", True),
    ],
)
def test_whoever_has_no_key_shares_a_rate_with_its_address_alone(
    path: Path, one: str | None, other: str | None, shared: bool
) -> None:
    written(path, KeyFile(tiers={"gold": GOLD, "public": Tier(decisions_per_minute=1)}))
    ring = KeyRing(path)
    accounts = {ring.authenticate(None, address).account for address in (one, other)}
    assert len(accounts) == (1 if shared else 2)


# The file, while the server runs


def test_keys_are_taken_and_revoked_from_the_next_request_on(path: Path) -> None:
    ring = KeyRing(path)
    assert ring.authenticate(None, None).key_name is None
    content = KeyFile(tiers={"gold": GOLD})
    first = written(path, content, "first")
    with pytest.raises(AuthenticationFailed):
        ring.authenticate(None, None)
    assert ring.authenticate(f"Bearer {first}", None).key_name == "first"
    second = written(path, keyfile.read(path), "second")
    assert ring.authenticate(f"Bearer {second}", None).key_name == "second"
    keyfile.write(path, keyfile.read(path).without_key("first"))
    with pytest.raises(AuthenticationFailed):
        ring.authenticate(f"Bearer {first}", None)
    assert ring.authenticate(f"Bearer {second}", None).key_name == "second"


def test_a_tier_changed_by_hand_holds_from_the_next_request_on(path: Path) -> None:
    key = written(path, KeyFile(tiers={"gold": GOLD}))
    ring = KeyRing(path)
    path.write_text(path.read_text().replace('"questions": 64', '"questions": 7'))
    assert ring.authenticate(f"Bearer {key}", None).tier.questions == 7


@pytest.mark.parametrize("harm", ["deleted", "not JSON", "unknown tier", "unreadable", *HIDINGS])
def test_a_file_that_comes_to_harm_opens_nothing(
    path: Path, harm: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    key = written(path, KeyFile(tiers={"gold": GOLD}))
    ring = KeyRing(path)
    good = path.read_text()
    match harm:
        case "deleted":
            path.unlink()
        case "not JSON":
            path.write_text(good[:-10])
        case "unknown tier":
            path.write_text(good.replace('"tier": "gold"', '"tier": "lead"'))
        case "unreadable":
            path.unlink()
            path.mkdir()
        case _:
            HIDINGS[harm](path)
    for _ in range(3):
        with pytest.raises(AuthenticationFailed):
            ring.authenticate(None, None)
        assert ring.authenticate(f"Bearer {key}", None).key_name == "alice"
    said = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(said) == 1, "said once, not with every request"
    assert hash_of(key) not in str(said[0].__dict__)


@pytest.mark.parametrize("hiding", HIDINGS)
def test_a_file_that_may_be_there_is_no_start(path: Path, triton: FakeTriton, hiding: str) -> None:
    HIDINGS[hiding](path)
    with pytest.raises(SettingsError, match=r"SYSTEMONE_KEYS: .*keys\.json"):
        create_app(Settings(keys=path), triton)


def test_a_folder_that_may_not_be_looked_into_is_no_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Raised by hand: the superuser, who may run the tests, may look everywhere.
    def refused(file: Path) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", str(file))

    monkeypatch.setattr("frontend.keyring.os.stat", refused)
    with pytest.raises(PermissionError):
        KeyRing(path)


def test_a_file_that_appears_after_a_loop_of_links_is_read(path: Path) -> None:
    key = written(path, KeyFile(tiers={"gold": GOLD}))
    ring = KeyRing(path)
    hide_in_a_loop(path)
    assert ring.authenticate(f"Bearer {key}", None).key_name == "alice"
    path.unlink()
    second = written(path, KeyFile(tiers={"gold": GOLD}), "second")
    assert ring.authenticate(f"Bearer {second}", None).key_name == "second"
    with pytest.raises(AuthenticationFailed):
        ring.authenticate(f"Bearer {key}", None)


def test_a_broken_file_is_no_start(path: Path) -> None:
    path.write_text('{"tiers": {"gold": {"question": 3}}, "keys": []}')
    with pytest.raises(KeyFileError, match=r"keys\.json.*tiers\.gold\.question"):
        KeyRing(path)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "two words"},
        {"name": ""},
        {"name": "a" * 65},
        {"name": "new\nline"},
        {"tier": "none"},
        {"sha256": "clef_plain"},
        {"key": "clef_plain"},
    ],
)
def test_a_file_that_makes_no_sense_is_refused(path: Path, change: dict[str, str]) -> None:
    entry = {"name": "alice", "tier": "gold", "sha256": hash_of("k")}
    path.write_text(json.dumps({"tiers": {"gold": {}}, "keys": [entry | change]}))
    with pytest.raises(KeyFileError) as refused:
        keyfile.read(path)
    assert "clef_plain" not in str(refused.value)


@pytest.mark.parametrize("twin", [{"name": "bob"}, {"sha256": hash_of("other")}], ids=["same hash", "same name"])
def test_no_two_keys_are_alike(path: Path, twin: dict[str, str]) -> None:
    entry = {"name": "alice", "tier": "gold", "sha256": hash_of("k")}
    path.write_text(json.dumps({"tiers": {"gold": {}}, "keys": [entry, entry | twin]}))
    with pytest.raises(KeyFileError, match="same name or the same hash"):
        keyfile.read(path)


@pytest.mark.parametrize("limit", [{"questions": 0}, {"questions": 256}, {"images": -1}, {"tokens": "8k"}, {"rate": 5}])
def test_a_tier_that_makes_no_sense_is_refused(path: Path, limit: dict[str, object]) -> None:
    path.write_text(json.dumps({"tiers": {"gold": limit}, "keys": []}))
    with pytest.raises(KeyFileError, match=r"tiers\.gold"):
        keyfile.read(path)
