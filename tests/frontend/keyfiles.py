"""Key files as the tests write them."""

from __future__ import annotations

from pathlib import Path

from frontend import keyfile
from frontend.keyfile import KeyFile
from frontend.tiers import Tier

GOLD = Tier(questions=64, decisions_per_minute=600)


def written(path: Path, content: KeyFile, name: str = "alice", tier: str = "gold") -> str:
    """Writes the file with one key more; returns the key."""
    content, key = content.with_new_key(name, tier)
    keyfile.write(path, content)
    return key
