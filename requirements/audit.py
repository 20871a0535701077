"""Known vulnerabilities of every pinned version: `python requirements/audit.py PIP-AUDIT [--if-reachable] [OPTION...]`.

pip-audit counts a package that its service does not know as skipped, and exits with 0 though it has audited nothing.
So its findings are read here. Exit status: 0 where everything was audited and nothing is known, 1 where something is
known or a part could not be audited, 3 where the service could not be asked at all (0 with --if-reachable: for CI
without a way to it, whose log then says that nothing was audited). Further options are pip-audit's own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PINS = [
    Path(__file__).with_name(name)
    for name in ("constraints.txt", "gpu.txt", "embedded-triton.txt", "test-no-deps.txt", "audit.txt")
]
NOT_AUDITED = 3
SHOWN = 5


def audit(pip_audit: str, options: Sequence[str]) -> tuple[list[dict[str, Any]], str]:
    """What pip-audit says of each package, and where it says nothing, why."""
    pins = [part for file in PINS for part in ("--requirement", str(file))]
    command = [
        pip_audit,
        "--no-deps",
        "--disable-pip",
        "--progress-spinner",
        "off",
        "--format",
        "json",
        *pins,
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)["dependencies"], ""
    except ValueError:
        return [], (done.stderr.strip().splitlines() or ["it said nothing"])[-1]


def verdict(packages: Sequence[dict[str, Any]], trouble: str, if_reachable: bool) -> tuple[int, list[str]]:
    """The exit status, and what to say."""
    skipped = [package for package in packages if "skip_reason" in package]
    audited = [package for package in packages if "skip_reason" not in package]
    if not audited:
        reason = trouble or (skipped[0]["skip_reason"] if skipped else "there are no packages")
        line = f"NOT AUDITED: none of {len(packages)} packages: the service could not be asked ({reason})"
        return 0 if if_reachable else NOT_AUDITED, [line]
    lines = [
        f"{package['name']} {package['version']}: {found['id']}, fixed in {', '.join(found['fix_versions']) or 'none'}"
        for package in audited
        for found in package["vulns"]
    ]
    known = len(lines)
    lines += [f"not audited: {package['name']}: {package['skip_reason']}" for package in skipped[:SHOWN]]
    lines.append(f"{len(audited)} packages audited, {known} known vulnerabilities, {len(skipped)} packages not audited")
    return int(bool(known or skipped)), lines


def main(arguments: Sequence[str]) -> int:
    pip_audit, *options = arguments
    if_reachable = "--if-reachable" in options
    packages, trouble = audit(pip_audit, [option for option in options if option != "--if-reachable"])
    status, lines = verdict(packages, trouble, if_reachable)
    print("\n".join(lines))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
