"""`keys.json`: who may call. Names, tiers and sha256 hashes, never a key itself.

A key has 256 random bits, so its plain hash cannot be guessed back, and no salt or slow hash is called for.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from frontend.tiers import Tier

KEY_PREFIX = "clef_"
PUBLIC = "public"
# What a new file begins with.
SHIPPED_TIERS = {
    PUBLIC: Tier(questions=16, images=1, tokens=8_192, decisions_per_minute=30),
    "standard": Tier(decisions_per_minute=1_200),
}

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
Name = Annotated[str, Field(pattern=_NAME)]


class KeyFileError(ValueError):
    """The file is not one, or a change to it makes no sense. Never holds a hash."""


class KeyEntry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    tier: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    created: datetime | None = None


class KeyFile(BaseModel):
    """The whole file. A tier named `public`, where there is one, is for callers without a key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tiers: dict[Name, Tier]
    keys: tuple[KeyEntry, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names, hashes = {key.name for key in self.keys}, {key.sha256 for key in self.keys}
        if len(names) < len(self.keys) or len(hashes) < len(self.keys):
            raise PydanticCustomError("keys", "two keys have the same name or the same hash")
        for key in self.keys:
            if key.tier not in self.tiers:
                raise PydanticCustomError(
                    "tier", "the key {name} is of a tier that is not in the file", {"name": key.name}
                )
        return self

    def with_new_key(self, name: str, tier: str) -> tuple["KeyFile", str]:
        """This file with one key more, and the key itself, which exists nowhere else.

        Raises KeyFileError for a name that is none or is taken, and for a tier that the file does not have.
        """
        if not re.fullmatch(_NAME, name):
            raise KeyFileError("A key's name is 1 to 64 letters, digits and . _ @ -, the first one a letter or digit.")
        if any(entry.name == name for entry in self.keys):
            raise KeyFileError(f"There is a key named {name} already.")
        if tier not in self.tiers:
            raise KeyFileError(f"There is no tier named {tier}; the file has {', '.join(self.tiers)}.")
        key = KEY_PREFIX + secrets.token_urlsafe(32)
        created = datetime.now(UTC).replace(microsecond=0)
        entry = KeyEntry(name=name, tier=tier, sha256=hash_of(key), created=created)
        return self.model_copy(update={"keys": (*self.keys, entry)}), key

    def without_key(self, name: str) -> "KeyFile":
        """This file without the key of that name. Raises KeyFileError where there is none."""
        kept = tuple(key for key in self.keys if key.name != name)
        if len(kept) == len(self.keys):
            raise KeyFileError(f"There is no key named {name}.")
        return self.model_copy(update={"keys": kept})


def hash_of(key: str) -> str:
    """The sha256 of a key, in hex. Takes any text: what a client sends as a key need not be one."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def read(path: Path) -> KeyFile:
    """The file at `path`. Raises FileNotFoundError, other OSErrors, and KeyFileError with what is wrong in it."""
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise KeyFileError(f"{path} is not JSON: {error}") from None
    return _validated(content, f"{path} is not a key file")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other commands from changing the file meanwhile. Readers need no lock: the file is replaced whole.

    Raises FileNotFoundError where the folder does not exist.
    """
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def write(path: Path, content: KeyFile) -> None:
    """Replace the file in one step; it is its owner's alone to read, and keeps the owner that it had."""
    path = path.resolve()
    text = json.dumps(content.model_dump(mode="json", exclude_none=True), indent=2) + "\n"
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            if path.exists() and path.stat().st_uid != os.getuid():
                # The superuser's command must not take the file away from the server's user.
                os.fchown(file.fileno(), path.stat().st_uid, path.stat().st_gid)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _validated(content: object, problem: str) -> KeyFile:
    try:
        return KeyFile.model_validate(content)
    except ValidationError as error:
        issues = error.errors(include_input=False, include_url=False)
        first = "; ".join(f"{'.'.join(map(str, issue['loc'])) or 'file'}: {issue['msg']}" for issue in issues[:5])
        raise KeyFileError(f"{problem}: {first}") from None
