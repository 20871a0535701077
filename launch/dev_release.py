"""The development release: the layout of a real Clef release, small, with random weights. Its answers mean nothing.

The same seed gives the same bytes. What makes it (this code, the corpus, the library that trains the tokenizer) is
written down in it as a digest, so that a later version of the code knows an old one and writes it anew.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import tokenizers

from launch.dev_config import (
    CHAT_TEMPLATE,
    PROCESSOR_CONFIG,
    SIZES,
    TOKENIZER_CONFIG,
    Size,
    generation_config,
    joint_head_config,
    model_config,
)
from launch.errors import LaunchError
from launch.triton import CACHE

DEV_RELEASE = CACHE / "dev-release"
MARKER = "RANDOM_WEIGHTS.txt"
SOURCES = ("dev_release.py", "dev_config.py", "dev_tokenizer.py", "dev_weights.py", "corpus.txt")


def write_dev_release(folder: Path, size: str = "dev", seed: int = 0) -> bool:
    """Writes the release into `folder`, whole or not at all; False where the same one lies there already.

    Raises LaunchError where the folder holds something else.
    """
    marker = _marker(size, seed)
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARKER).is_file():
            raise LaunchError(f"{folder} holds something that is no development release: choose another folder.")
        if (folder / MARKER).read_text() == marker:
            return False
    unfinished = folder.with_name(f"{folder.name}.unfinished-{os.getpid()}")
    unfinished.mkdir(parents=True)
    try:
        _write_files(unfinished, SIZES[size], seed)
        (unfinished / MARKER).write_text(marker)
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished)
        raise
    return True


def _marker(size: str, seed: int) -> str:
    digest = hashlib.sha256(tokenizers.__version__.encode())
    for name in SOURCES:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return (
        "Random weights in the layout of a Clef release, for development and tests. Its answers mean nothing.\n"
        f"Size {size}, seed {seed}, recipe {digest.hexdigest()[:16]}.\n"
    )


def _write_files(folder: Path, size: Size, seed: int) -> None:
    # Imported here: torch and transformers take seconds to load, and a release that is there already needs neither.
    from safetensors.torch import save_file

    from launch.dev_tokenizer import train_tokenizer
    from launch.dev_weights import head_weights, trunk_weights

    tokenizer = train_tokenizer()
    token_ids = tokenizer.get_vocab()
    config, head_config = model_config(size, token_ids), joint_head_config(size)
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(folder / "config.json", config)
    _write_json(folder / "joint_head_config.json", head_config)
    _write_json(folder / "generation_config.json", generation_config(token_ids))
    _write_json(folder / "tokenizer_config.json", TOKENIZER_CONFIG)
    _write_json(folder / "processor_config.json", PROCESSOR_CONFIG)
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    save_file(trunk_weights(config, seed), folder / "model.safetensors", metadata={"format": "pt"})
    save_file(head_weights(head_config, seed), folder / "joint_head.safetensors", metadata={"format": "pt"})


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
