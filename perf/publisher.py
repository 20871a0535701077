"""The publisher's own code, to compare with: PyPI's clef-finetune 0.1.0 carries its release's module unmodified.

The file is loaded by its path, since the package around it asks for more than this project installs.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import tokenizers

from launch.release_code import MODULE, SHA256, load_module, sha256


@cache
def publisher() -> ModuleType:
    """`joint_schema_model.py` of both releases. Raises ImportError where it is missing or is not that file."""
    spec = importlib.util.find_spec("clef_finetune")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("clef-finetune is not installed: see requirements/test-no-deps.txt")
    path = Path(spec.submodule_search_locations[0]) / "_vendor" / MODULE
    if sha256(path) != SHA256:
        raise ImportError(f"{path} is not the module of the releases")
    return load_module(path)


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
