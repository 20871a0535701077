"""The publisher's own code, to compare with: PyPI's clef-finetune 0.1.0 carries its release's module unmodified.

The file is loaded by its path, since the package around it asks for more than this project installs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import tokenizers

SHA256 = "0e304cf7c6500e8bb59bef7e2afd2c6373f82596dfb3b57d1aa93c175e2dc3a3"


@cache
def publisher() -> ModuleType:
    """`joint_schema_model.py` of both releases. Raises ImportError where it is missing or is not that file."""
    spec = importlib.util.find_spec("clef_finetune")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("clef-finetune is not installed: see requirements/test-no-deps.txt")
    path = Path(spec.submodule_search_locations[0]) / "_vendor" / "joint_schema_model.py"
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        raise ImportError(f"{path} is not the module of the releases")
    name = "publisher_joint_schema_model"
    file_spec = importlib.util.spec_from_file_location(name, path)
    assert file_spec is not None and file_spec.loader is not None
    module = importlib.util.module_from_spec(file_spec)
    sys.modules[name] = module  # its dataclasses look their module up
    file_spec.loader.exec_module(module)
    return module


class PlainTokenizer:
    """As much of transformers' tokenizer as the publisher's encoder calls, straight on `tokenizers`."""

    class Ids:
        """The result of a call."""

        def __init__(self, input_ids: list[int]) -> None:
            self.input_ids = input_ids

    def __init__(self, release: Path) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_file(str(release / "tokenizer.json"))

    def __call__(self, text: str, add_special_tokens: bool) -> Ids:
        return self.Ids(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)
