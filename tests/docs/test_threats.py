"""Every defence on the page names a test, and the test is there."""

from __future__ import annotations

import re

import pytest

from tests.docs.messages import ROOT

ROWS = re.findall(
    r"^\| (?!threat |---)(.+?) \| (.+?) \| (`tests/.+?) \|$",
    (ROOT / "docs" / "threats.md").read_text("utf-8"),
    re.MULTILINE,
)
NAMED = sorted({name for *_, names in ROWS for name in re.findall(r"`(.+?)`", names)})


@pytest.mark.parametrize("name", NAMED)
def test_a_named_test_is_there(name: str) -> None:
    file, _, test = name.partition("::")
    text = (ROOT / file).read_text("utf-8")
    assert re.search(rf"def {test}\(" if test else r"def test_", text)


def test_every_defence_is_shown() -> None:
    section = (
        (ROOT / "docs" / "threats.md").read_text("utf-8").partition("## What is defended")[2].partition("\n## ")[0]
    )
    assert len(ROWS) == section.count("\n| ") - 1 > 20
