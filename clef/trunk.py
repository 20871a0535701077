"""The trunk: transformers' own Qwen3_5 classes, from token ids to hidden states.

Source: transformers 5.24. What differs from calling its multimodal model: the media's features are placed by us (so
that records share them, and a text that spells a media token stays text), rotary positions are given, and no
attention mask is made: padding stands on the right of causal layers, where no token that counts sees it.

Axes: B records, L tokens, S tokens of the longest suffix, H hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen3_5ForConditionalGeneration
from transformers.utils import logging as transformers_logging

from clef.batch import Record
from clef.collate import Batch
from clef.continuation import Continuation
from clef.errors import InvalidRecord, ReleaseError
from clef.graphs import Graphs
from clef.media import Media, MediaTokens, media_starts, pixel_values
from clef.packed import boundaries
from clef.release import shorten
from clef.state_cache import LayerState, Segment


class Trunk:
    """The backbone of one release on one device."""

    graphs: Graphs | None = None
    """Of `text`; see `ClefModel.warm_up`."""

    def __init__(self, model: Qwen3_5ForConditionalGeneration) -> None:
        self.model = model.model
        self.language_model = model.model.language_model
        self.config = model.config.text_config
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
        """Hidden states after the final norm, until the next call: [B, L, H], or packed [1, T, H].

        Rows of padding mean nothing.
        """
        device = batch.input_ids.device
        media = Media.of(batch.records, self.media_tokens, self.merge, device, batch.packed)
        if media is None and len(batch.records) == 1:
            replayed = None if self.graphs is None else self.graphs(batch.input_ids)
            return self.text(batch.input_ids) if replayed is None else replayed
        embedded = self.embed(batch.input_ids, media)
        positions = None if media is None else media.positions
        if not batch.packed:
            return self._run(embedded, positions, None, None)
        restarting, packing = boundaries([record.length for record in batch.records], device)
        return self._run(embedded, restarting if positions is None else positions, None, None, packing)

    def text(self, input_ids: Tensor) -> Tensor:
        """Hidden states [B, L, H] of text alone, right-padded."""
        return self._run(self.embed(input_ids), None, None, None)

    def embed(self, input_ids: Tensor, media: Media | None = None) -> Tensor:
        """[B, L] → [B, L, H], images in their places."""
        embedded: Tensor = self.language_model.embed_tokens(input_ids)
        if media is not None:
            pixels = pixel_values(media.patches, media.pairs).to(embedded.dtype)
            features = torch.cat(self.model.get_image_features(pixels, media.grid).pooler_output)
            embedded.flatten(0, 1)[media.slots] = features[media.features]
        return embedded

    def extend(
        self, embedded: Tensor, positions: Tensor, past: Sequence[Segment], past_length: int
    ) -> tuple[Tensor, list[LayerState]]:
        """Hidden states [B, S, H] of tokens [B, S, H] that stand behind the same past, and what they add to it.

        positions: [3, 1 or B, S]. What is added may be kept where B is 1 and nothing is padding (`Segment.layers`).
        """
        continuation = Continuation(past, len(embedded))
        mask = _causal(embedded.shape[1], past_length, embedded.device) if past else None
        return self._run(embedded, positions, mask, continuation), continuation.added()

    def _run(
        self,
        embedded: Tensor,
        positions: Tensor | None,
        mask: Tensor | None,
        continuation: Continuation | None,
        packing: Mapping[str, Any] | None = None,
    ) -> Tensor:
        hidden: Tensor = self.language_model(
            inputs_embeds=embedded,
            position_ids=positions,
            # A mapping is taken as it is; for None a mask would be made, of padding too.
            attention_mask={"full_attention": mask, "linear_attention": None},
            cache=continuation,
            use_cache=False,
            **packing or {},
        ).last_hidden_state
        return hidden


def _causal(new: int, past: int, device: torch.device) -> Tensor:
    """[1, 1, S, past + S]: True where a token may look. PyTorch's own causal mask would begin at the past's start."""
    return torch.ones(1, 1, new, past + new, dtype=torch.bool, device=device).tril(past)
