"""From an `Authorization` header to a caller, by a key file that may change while the server runs."""

import functools
import hmac
import ipaddress
import logging
import os
from pathlib import Path

from frontend import keyfile
from frontend.errors import AuthenticationFailed
from frontend.keyfile import KeyFile, KeyFileError
from frontend.tiers import Caller

_log = logging.getLogger(__name__)

_HOW = "Send the key as 'Authorization: Bearer KEY'."

_ANYBODY = Caller(key_name=None, account="anybody")

# What a look at the file finds: the file, no file, or why there is no telling.
_State = tuple[int, int, int] | str | None


class KeyRing:
    """The keys of one file, read again when it changes.

    Without the file everybody may call, at no rate. Once read, keys stay in force through anything that happens to
    the file, short of a new valid one: a deployment that loses or breaks it must not open the server.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError and KeyFileError where there is a file that cannot be read, or may be one."""
        self._path = path
        self._file: KeyFile | None = None
        self._seen: _State = self._state()
        if self._seen is None:
            _log.warning("no key file: everybody may call", extra={"fields": {"path": str(path)}})
        else:
            self._file = keyfile.read(path)

    def authenticate(self, authorization: str | None, address: str | None) -> Caller:
        """Who sends this `Authorization` header from this address. Raises AuthenticationFailed."""
        self._refresh()
        if self._file is None:
            return _ANYBODY
        key = _bearer(authorization)
        if key is None:
            if keyfile.PUBLIC in self._file.tiers:
                tier = self._file.tiers[keyfile.PUBLIC]
                return Caller(key_name=None, account=_address_account(address), tier=tier)
            raise AuthenticationFailed(f"A key is required. {_HOW}")
        presented = keyfile.hash_of(key)
        found = None
        for entry in self._file.keys:
            # No early exit: the time must not tell which key was met, or how far.
            if hmac.compare_digest(entry.sha256, presented):
                found = entry
        if found is None:
            raise AuthenticationFailed("This key is not known here.")
        tier = self._file.tiers[found.tier]
        return Caller(key_name=found.name, account=f"key:{found.name}", tier=tier, key_hash=found.sha256)

    def _refresh(self) -> None:
        try:
            state: _State = self._state()
        except OSError as error:
            state = str(error)
        if state == self._seen:
            return
        self._seen = state
        fields = {"path": str(self._path)}
        try:
            self._file = keyfile.read(self._path)
            _log.info("key file read", extra={"fields": fields})
        except (OSError, KeyFileError) as error:
            _log.error("key file not read, the keys stay as they were", extra={"fields": {**fields, "why": str(error)}})

    def _state(self) -> tuple[int, int, int] | None:
        """None where there is no file. Raises OSError where that cannot be told: then nobody is let in unasked."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        # ctime moves with the content, the owner and the mode alike.
        return found.st_ctime_ns, found.st_ino, found.st_size


def _bearer(authorization: str | None) -> str | None:
    """The key of a header; None without one. Raises AuthenticationFailed for another scheme, or none after it.

    Whoever sends the header means to be known: a key that got lost on the way must not be taken for nobody's.
    """
    scheme, _, key = (authorization or "").strip().partition(" ")
    if not scheme:
        return None
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        raise AuthenticationFailed(f"The Authorization header holds no key. {_HOW}")
    return key


@functools.lru_cache(maxsize=4096)
def _address_account(address: str | None) -> str:
    try:
        ip = ipaddress.ip_address(address or "")
    except ValueError:  # a socket file, or what a proxy calls its client
        return "address:unknown"
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return f"address:{ip.ipv4_mapped}"
        # One subscriber has a whole /64 of IPv6.
        return f"address:{ipaddress.ip_network((int(ip), 64), strict=False)}"
    return f"address:{ip}"
