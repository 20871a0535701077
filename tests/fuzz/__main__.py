"""`python -m tests.fuzz [SECONDS] [--target NAME] [--seed N]`: looks for bytes that break a target.

Guided by coverage (atheris, which is libFuzzer), from the corpus beside this file. An input that fails, takes ten
seconds or two gigabytes is written into that corpus, where from then on the tests try it. Inputs that reach something
new are kept in .cache/fuzz, for the next run to begin with.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from launch.triton import CACHE, REPOSITORY_ROOT

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
INSTRUMENTED = ["preprocess", "postprocess", "frontend", "python_multipart"]
NAMES = ("body", "image", "dialects", "multipart", "packed")


def fuzz(name: str, seconds: int, seed: int) -> int:
    """In a process of its own: libFuzzer ends the one it runs in. Returns its exit status."""
    found = CACHE / "fuzz" / name
    found.mkdir(parents=True, exist_ok=True)
    words = HERE / f"{name}.dict"
    options = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-max_len=65536",
        "-print_final_stats=1",
        f"-artifact_prefix={CORPUS / name}/found-",
        *([f"-dict={words}"] if words.exists() else []),
    ]
    command = [sys.executable, "-m", "tests.fuzz", "--within", name, *options, str(found), str(CORPUS / name)]
    return subprocess.run(command, cwd=REPOSITORY_ROOT, check=False).returncode


def within(name: str, options: list[str]) -> None:
    """Does not return."""
    import atheris  # type: ignore[import-not-found, unused-ignore]

    # Imported here, since only what is imported within is watched.
    with atheris.instrument_imports(include=INSTRUMENTED):
        from tests.fuzz.targets import TARGETS

    TARGETS[name](b"")  # loads what is loaded once
    atheris.Setup([sys.argv[0], *options], TARGETS[name])
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("seconds", nargs="?", type=int, default=60, help="for each target")
    parser.add_argument("--target", choices=NAMES)
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    given = parser.parse_args()
    names = [given.target] if given.target else NAMES
    return max(fuzz(name, given.seconds, given.seed) for name in names)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--within"]:
        within(sys.argv[2], sys.argv[3:])
    sys.exit(main())
