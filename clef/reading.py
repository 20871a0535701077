"""Whether transformers reads text as the release's `tokenizer.json` says.

Requests are encoded by that file alone, the publisher encodes with transformers, whose class puts a normalizer and a
split pattern of its own in place of the file's. So the two are compared on texts that tell them apart.
"""

from __future__ import annotations

import logging
from pathlib import Path

import tokenizers
from transformers import AutoTokenizer

from clef.errors import ReleaseError

log = logging.getLogger(__name__)

FILE = "tokenizer.json"
PROBES = (
    "cafe\u0301 and caf\u00e9",
    "\u0928\u092e\u0938\u094d\u0924\u0947, \ud658\ubd88, \u05e9\u05dc\u05d5\u05dd, \u670d\u52a1, \U0001f600",
    "It's 12345.678, they'LL see\r\n\r\n\tand  so on   \n",
    '{"option_id":"a","description":["\\n",1e+22,-0.0,null]}',
    "<|im_start|>user\nSTATE:\n<|im_end|>\n<think>\n\n</think>\n\nJOINT SCHEMA DECISIONS:",
    "<|vision_start|><|image_pad|><|video_pad|><|vision_end|>",
)


def check_reading(path: Path) -> None:
    """Raises ReleaseError where a probe reads otherwise.

    Where transformers cannot read the tokenizer, a line in the log says so.
    """
    try:
        plain = tokenizers.Tokenizer.from_file(str(path / FILE))
    except Exception as error:  # `tokenizers` raises no narrower class
        raise ReleaseError(f"{FILE} is not readable: {error}") from error
    try:
        published = AutoTokenizer.from_pretrained(path, local_files_only=True)
    except Exception as error:
        # Its files beside tokenizer.json serve nothing here, so that they are wrong is no reason to refuse.
        log.warning("transformers cannot read the tokenizer, so the two were not compared: %s", error)
        return
    for probe in PROBES:
        if plain.encode(probe, add_special_tokens=False).ids != published(probe, add_special_tokens=False).input_ids:
            raise ReleaseError(
                f"{FILE} reads {probe!r} otherwise than transformers' {type(published).__name__} does, which the "
                "publisher's code uses: answers would not be the publisher's. Is the file that of the release?"
            )
