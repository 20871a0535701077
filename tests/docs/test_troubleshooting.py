"""The page of messages is held to the code: what it quotes exists, and what is logged as trouble is on it."""

from __future__ import annotations

import re

import pytest

from tests.docs.messages import HOLE, ROOT, every, loud

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")


def quoted() -> list[str]:
    """The messages of the tables whose words are the code's."""
    found, ours = [], False
    for line in PAGE.splitlines():
        if re.match(r"\| (message|Triton says) \|", line):
            ours = line.startswith("| message")
        elif ours and (row := re.match(r"\| `(.+?)` \|", line)):
            found.append(row[1])
    return found


@pytest.mark.parametrize("message", quoted())
def test_a_quoted_message_is_in_the_code(message: str) -> None:
    assert any(message.strip(f"{HOLE}. ") in text for text in every()), "reworded, or gone"


@pytest.mark.parametrize("message", sorted(loud()))
def test_what_is_logged_as_trouble_is_explained(message: str) -> None:
    assert message in quoted(), "docs/troubleshooting.md should say what it means"


def test_the_page_is_read() -> None:
    assert len(quoted()) > 40
    assert len(loud()) > 10
