"""A forward pass that continues a stored prefix: the interface of transformers' caches over segments.

transformers' own cache keeps one growing state and writes into it. Here the past is shared by the rows of a batch and
by later batches, and never written to; what the pass adds is kept apart.

Source: transformers 5.24, the calls that Qwen3_5's layers make of their `cache`.

Axes: B rows, S new tokens, A key-value heads, D head size, C convolution channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clef.state_cache import LayerState, Segment


class Continuation:
    """The `cache` of one forward pass over tokens that stand behind `past`, the same for all rows."""

    def __init__(self, past: Sequence[Segment], rows: int) -> None:
        self._past, self._rows = past, rows
        self._added: dict[int, tuple[Tensor, ...]] = {}

    def added(self) -> list[LayerState]:
        """What the pass made, by layer; see `Segment.layers`. For exact rows only: padding spoils a DeltaNet's."""
        return [(first, second) for _, (first, second) in sorted(self._added.items())]

    def update(self, keys: Tensor, values: Tensor, layer: int, **_: Any) -> tuple[Tensor, Tensor]:
        """New keys and values [B, A, S, D] → those of the past and the new ones."""
        self._added[layer] = (keys, values)
        past = [segment.layers[layer] for segment in self._past]
        return _joined([pair[0] for pair in past], keys), _joined([pair[1] for pair in past], values)

    def get_conv_state(self, layer: int, state_idx: int) -> Tensor | None:
        return self._past[-1].layers[layer][0] if self._past else None

    def get_recurrent_state(self, layer: int, state_idx: int) -> Tensor | None:
        if not self._past:
            return None
        state = self._past[-1].layers[layer][1]
        return state.expand(self._rows, -1, -1, -1).contiguous()  # as CUDA's kernel wants it

    def is_recording_past(self, layer: int) -> bool:
        # Otherwise a single token would take a kernel that writes into the convolution's state.
        return True

    def update_conv_state(self, inputs: Tensor, layer: int, conv_kernel_size: int) -> Tensor:
        """New inputs of the convolution [B, C, S] → the last ones of the past, zeros where there are none, and them."""
        reach = conv_kernel_size - 1
        context = self.get_conv_state(layer, 0)
        if context is None:
            joined = F.pad(inputs, (reach, 0))
        else:
            joined = torch.cat([context.expand(self._rows, -1, -1), inputs], dim=-1)
        self._added[layer] = (joined[..., joined.shape[-1] - reach :].clone(),)
        return joined

    def update_recurrent_state(self, state: Tensor, layer: int) -> None:
        self._added[layer] += (state,)


def _joined(past: Sequence[Tensor], new: Tensor) -> Tensor:
    """[1, A, n, D] of each segment and [B, A, S, D] → [B, A, …, D]"""
    return torch.cat([*(part.expand(len(new), -1, -1, -1) for part in past), new], dim=2) if past else new
