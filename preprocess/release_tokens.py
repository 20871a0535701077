"""Whether a release's tokenizer is the one that its model was made for, as far as `config.json` tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from preprocess.prompt import IMAGE_PAD, VIDEO_PAD, VISION_END, VISION_START
from preprocess.tokenizer import TokenizerError, Vocabulary

CONFIG = "config.json"
TOKENS = {
    "image_token_id": IMAGE_PAD,
    "video_token_id": VIDEO_PAD,
    "vision_start_token_id": VISION_START,
    "vision_end_token_id": VISION_END,
}


def check_tokens(vocabulary: Vocabulary, release: Path) -> None:
    """Raises TokenizerError where an id has no row in the model, or a media token another id there."""
    config = _read(release / CONFIG)
    text = config.get("text_config")
    rows = text.get("vocab_size") if isinstance(text, dict) else None
    if not isinstance(rows, int):
        raise TokenizerError(f"{CONFIG} does not say the size of the vocabulary (text_config.vocab_size).")
    if vocabulary.last_id >= rows:
        raise TokenizerError(
            f"tokenizer.json has ids up to {vocabulary.last_id}, and the model {rows} rows ({CONFIG}): they are not "
            "of one release."
        )
    for name, token in TOKENS.items():
        own = vocabulary.structural.token_to_id(token)
        if name in config and config[name] != own:
            raise TokenizerError(
                f"{token} is {own} in tokenizer.json, and {config[name]} in {CONFIG} ({name}): they are not of one "
                "release."
            )


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TokenizerError(f"{path} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise TokenizerError(f"{path} must hold a JSON object.")
    return values
