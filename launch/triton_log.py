"""What matters in Triton's log when it did not start."""

import re

# Lines of information, and tables.
_CHATTER = re.compile(r"\S+ I \d+ |[+|]")
# The reason ends where the traceback begins; line ends are written as \n within a message.
_LOAD_FAILURE = re.compile(
    r"failed to load '(?P<model>\S+)' version \d+: (?:Internal: )?(?P<reason>.+?)(?:\\n\\nAt:|\"$)"
)
SHOWN_LINES = 15


def summary(log: str) -> str:
    """Why models did not load, one line each; where that was not the trouble, the log's last lines worth reading."""
    lines = log.splitlines()
    failures = {found["model"]: found["reason"] for line in lines if (found := _LOAD_FAILURE.search(line))}
    if failures:
        return "\n".join(f"{model}: {reason}" for model, reason in failures.items())
    return "\n".join([line for line in lines if line.strip() and not _CHATTER.match(line)][-SHOWN_LINES:])
