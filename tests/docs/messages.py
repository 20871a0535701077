"""The texts in the code, as somebody meets them: pieces joined, and … where a value stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOLE = "…"
ROOMS = ("launch", "clef", "preprocess", "postprocess", "adapter", "frontend", "docker/triton", "model_repository")
LOUD = {"warning", "error", "exception", "critical"}


def trees() -> Iterator[ast.Module]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield ast.parse(path.read_text("utf-8"))


def text_of(node: ast.AST) -> str | None:
    """Of a string, with or without values in it; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"%(\.\d+)?[a-z]", HOLE, node.value)
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else HOLE for part in node.values]
        return re.sub(f"{HOLE}+", HOLE, "".join(map(str, parts)))
    return None


@cache
def every() -> set[str]:
    return {text for tree in trees() for node in ast.walk(tree) if (text := text_of(node))}


@cache
def loud() -> set[str]:
    """What is logged at warning or above, in a text of its own."""
    return {
        text
        for tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute)
        if node.func.attr in LOUD and _is_log(node.func.value) and (text := text_of(node.args[0]))
    }


def _is_log(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("log", "_log")
