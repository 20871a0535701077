"""The trunk: transformers' own Qwen3_5 classes, from token ids to hidden states.

Source: transformers 5.24. What differs from calling its multimodal model: the media's features are placed by us (so
that records share them, and a text that spells a media token stays text), rotary positions are given, and no
attention mask is made: padding stands on the right of causal layers, where no token that counts sees it.

Axes: B records, L tokens, H hidden, V vocabulary.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from transformers import Qwen3_5ForConditionalGeneration
from transformers.utils import logging as transformers_logging

from clef.batch import Record
from clef.collate import Batch
from clef.errors import InvalidRecord, ReleaseError
from clef.media import Media, MediaTokens, media_starts, pixel_values
from clef.release import shorten

NO_MASK = {"full_attention": None, "linear_attention": None}


class Trunk:
    """The backbone of one release on one device."""

    def __init__(self, model: Qwen3_5ForConditionalGeneration) -> None:
        self.model = model.model
        self.language_model = model.model.language_model
        self.vocabulary: Tensor = model.lm_head.weight  # [V, H]
        self.media_tokens = MediaTokens(model.config.image_token_id, model.config.video_token_id)
        self.merge: int = model.config.vision_config.spatial_merge_size

    @classmethod
    def load(cls, path: Path, device: torch.device, dtype: torch.dtype) -> Trunk:
        """Raises ReleaseError where a weight is missing, left over or wrongly shaped."""
        transformers_logging.disable_progress_bar()
        try:
            model, report = Qwen3_5ForConditionalGeneration.from_pretrained(
                path, dtype=dtype, local_files_only=True, ignore_mismatched_sizes=True, output_loading_info=True
            )
        except Exception as error:
            # transformers has no one way to say that a configuration makes no sense to it.
            raise ReleaseError(f"the trunk cannot be loaded: {error}") from error
        # `mtp.…` (multi-token prediction) never shows up here: transformers' class declares that it does not use it.
        problems = [
            f"{what} {shorten(names)}"
            for what, names in (
                ("missing", report["missing_keys"]),
                ("unexpected", report["unexpected_keys"]),
                ("wrongly shaped", {name for name, *_ in report["mismatched_keys"]}),
            )
            if names
        ]
        if problems:
            raise ReleaseError(f"the trunk's weights do not fit config.json: {'; '.join(problems)}")
        for name in ("image_token_id", "video_token_id"):
            token = getattr(model.config, name)
            if not 0 <= token < len(model.lm_head.weight):
                raise ReleaseError(f"config.json: {name} {token} is not in the vocabulary")
        return cls(model.requires_grad_(False).eval().to(device))

    def check(self, record: Record) -> None:
        """Raises InvalidRecord where ids leave the vocabulary or media tokens do not fit the media."""
        if record.input_ids.min() < 0 or record.input_ids.max() >= len(self.vocabulary):
            raise InvalidRecord(f"a token id lies outside the vocabulary of {len(self.vocabulary)}")
        media_starts(record, self.media_tokens, self.merge)

    def forward(self, batch: Batch) -> Tensor:
        """Hidden states after the final norm: [B, L, H]. Rows of padding mean nothing."""
        rows, length = batch.input_ids.shape
        media = Media.of(batch.records, length, self.media_tokens, self.merge, batch.input_ids.device)
        embedded: Tensor = self.language_model.embed_tokens(batch.input_ids)
        if media is not None:
            pixels = pixel_values(media.patches, media.pairs).to(embedded.dtype)
            features = torch.cat(self.model.get_image_features(pixels, media.grid).pooler_output)
            embedded.view(rows * length, -1)[media.slots] = features[media.features]
        hidden: Tensor = self.language_model(
            inputs_embeds=embedded,
            position_ids=None if media is None else media.positions,
            attention_mask=NO_MASK,
            use_cache=False,
        ).last_hidden_state
        return hidden
