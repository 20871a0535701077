"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One line: `fail` keeps the service from starting or answering, `warn` is worth knowing."""

    level: Level
    about: str
    text: str
    advice: str = ""

    def line(self) -> str:
        """For a terminal."""
        return f"{self.level:4}  {self.about:14} {self.text}" + (
            f"\n      {'':14} → {self.advice}" if self.advice else ""
        )


def ok(about: str, text: str) -> Finding:
    return Finding("ok", about, text)


def warn(about: str, text: str, advice: str) -> Finding:
    return Finding("warn", about, text, advice)


def fail(about: str, text: str, advice: str) -> Finding:
    return Finding("fail", about, text, advice)
