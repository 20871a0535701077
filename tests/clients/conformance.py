"""jevcompat's whole suite against the real stack, and the report that the documentation keeps.

`python -m tests.clients.conformance` writes `docs/jevcompat.md`; a test holds the file to what the suite says.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.triton import REPOSITORY_ROOT
from tests.clients.environments import client_python
from tests.clients.keys import new_key, places
from tests.clients.registry import CLIENTS
from tests.stack.running import Stack, start_stack

REPORT = REPOSITORY_ROOT / "docs" / "jevcompat.md"
TYPESAFE_SETTINGS = {"CLEF_SEMANTICS": "independent", "CLEF_CONFIDENCE": "typesafe"}
_MARKS = {"pass": "✓", "fail": "✗", "skip": "–"}


@dataclass(frozen=True)
class Outcome:
    """What jevcompat said of one requirement."""

    level: str
    title: str
    status: str


@dataclass(frozen=True)
class Run:
    """A whole run: jevcompat's verdict, and each requirement's outcome by its id."""

    verdict: str
    outcomes: dict[str, Outcome]
    evidence: str

    def named(self, level: str, status: str) -> list[str]:
        return [name for name, each in self.outcomes.items() if (each.level, each.status) == (level, status)]

    def counts(self) -> str:
        """As jevcompat counts: passed of tested."""
        passed = {level: len(self.named(level, "pass")) for level in ("MUST", "SHOULD")}
        return ", ".join(f"{level} {count}/{count + len(self.named(level, 'fail'))}" for level, count in passed.items())


def run_suite(url: str, folder: Path, key: str | None = None) -> Run:
    """`jevcompat test URL`, read from its own JSON report."""
    written = folder / "jevcompat.json"
    command = [client_python("jevcompat").parent / "jevcompat", "test", url, "--json", written]
    if key is not None:
        command += ["--key", key]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"NO_COLOR": "1"})
    report: dict[str, Any] = json.loads(written.read_text("utf-8"))
    results = {each["id"]: Outcome(each["level"], each["title"], each["status"]) for each in report["results"]}
    return Run(report["summary"]["verdict"], results, done.stdout)


@contextmanager
def strict_stack(folder: Path) -> Iterator[tuple[Stack, str]]:
    """A stack that answers as TypeSafe does and takes no caller without a key; and a key."""
    key = new_key(folder)
    with start_stack(folder, **places(folder), **TYPESAFE_SETTINGS) as stack:
        yield stack, key


def render(defaults: Run, strict: Run) -> str:
    """The report: nothing in it changes between two runs of the same code."""
    versions = {client.name: client.version for client in CLIENTS}
    settings = ", ".join(f"`{name}={value}`" for name, value in TYPESAFE_SETTINGS.items())
    rows = [
        f"| {outcome.level} | `{name}` {outcome.title} | {_MARKS[outcome.status]} | "
        f"{_MARKS[strict.outcomes[name].status]} |"
        for name, outcome in defaults.outcomes.items()
    ]
    return _PAGE.format(
        jevcompat=versions["jevcompat"],
        sdk=versions["typesafe-sdk"],
        settings=settings,
        defaults=_verdict(defaults),
        strict=_verdict(strict),
        rows="\n".join(rows),
    )


def _verdict(run: Run) -> str:
    missed = ", ".join(f"`{name}`" for level in ("MUST", "SHOULD") for name in run.named(level, "fail"))
    return f"{run.verdict}, {run.counts()} | {missed or 'nothing'}"


_PAGE = """\
# jevcompat

What `jevcompat test URL` ({jevcompat}, its specification 0.1, with typesafe-sdk {sdk}) says of this server. Written by

```
python -m tests.clients.conformance
```

which starts the stack twice on the golden release, whose weights are random, and runs the suite on each.

| | settings | verdict | missed |
|---|---|---|---|
| defaults | `CLEF_SEMANTICS=joint`, `CLEF_CONFIDENCE=top`, no keys | {defaults} |
| as TypeSafe | {settings}, `SYSTEMONE_KEYS` without a public tier | {strict} |

Under the defaults the answers are the release's own, and three SHOULDs are the model's to keep or to miss:

- `confidence.formula`: the release's confidence is the top probability. `CLEF_CONFIDENCE=typesafe` gives the formula.
- `semantics.batching` and `semantics.question-order`: in a joint schema the questions see each other. So do they see
  their ids, which is the MUST `semantics.question-id`. The suite allows a probability to move by 0.05; random weights
  move it less, and trained ones may move it more. Under `CLEF_SEMANTICS=independent`, or `x_independent` in a request,
  nothing moves.

`–` is what a configuration does not have: a server without keys has no wrong ones.

| level | requirement | defaults | as TypeSafe |
|---|---|---|---|
{rows}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with start_stack(folder, **places(folder)) as stack:
            defaults = run_suite(stack.frontend, folder)
        with strict_stack(folder) as (stack, key):
            strict = run_suite(stack.frontend, folder, key)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(render(defaults, strict), "utf-8")
    print(f"{REPORT.relative_to(REPOSITORY_ROOT)}: {strict.verdict}, {strict.counts()}")


if __name__ == "__main__":
    main()
