"""What a computed prefix takes in memory, by arithmetic from the shapes of a release."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

CHUNK = 64
"""Tokens that DeltaNet's kernels work on at once; a boundary within one would only cost."""
SHORTEST = 512
"""Tokens between boundaries at least: each is a forward pass of its own when a prefix is first computed."""
STATE_BYTES = 4
"""DeltaNet's recurrent state and the head's memory are float32 whatever the trunk's type is."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes that are kept."""

    token: int
    """Of each token: attention keys and values, and the head's memory row."""
    boundary: int
    """At each boundary: recurrent and convolution states of all DeltaNet layers."""

    @classmethod
    def of(cls, config: Any, width: int, trunk_bytes: int) -> Footprint:
        """config: transformers' `text_config`; width: the head's; trunk_bytes: of a number in the trunk's type."""
        attention = config.layer_types.count("full_attention")
        key_value = 2 * config.num_key_value_heads * config.head_dim
        heads, size = config.linear_num_value_heads, config.linear_key_head_dim
        state = heads * size * config.linear_value_head_dim
        channels = 2 * config.linear_num_key_heads * size + heads * config.linear_value_head_dim
        convolution = channels * (config.linear_conv_kernel_dim - 1)
        return cls(
            token=attention * key_value * trunk_bytes + width * STATE_BYTES,
            boundary=(len(config.layer_types) - attention) * (state * STATE_BYTES + convolution * trunk_bytes),
        )

    @property
    def spacing(self) -> int:
        """Tokens from boundary to boundary: so many that their boundary takes no more than they do."""
        return max(SHORTEST, ceil(self.boundary / self.token / CHUNK) * CHUNK)

    def prefix(self, length: int) -> int:
        """Bytes of a whole prefix of `length` tokens."""
        return length * self.token + ceil(length / self.spacing) * self.boundary
