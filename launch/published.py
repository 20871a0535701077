"""The shapes of the published releases, as far as their memory follows from them.

Source: `config.json` and `joint_head_config.json` of Cloudflare/clef-flash@17f0b0ad and Cloudflare/clef@2f3de3dd.
"""

from __future__ import annotations

from dataclasses import dataclass

from clef.footprint import Footprint

BFLOAT16, FLOAT32 = 2, 4
ATTENTION_EVERY = 4


@dataclass(frozen=True, slots=True)
class TextShape:
    """Of transformers' `text_config`, by its names there."""

    num_hidden_layers: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    linear_num_value_heads: int
    num_key_value_heads: int = 4
    head_dim: int = 256
    linear_num_key_heads: int = 16
    linear_key_head_dim: int = 128
    linear_value_head_dim: int = 128
    linear_conv_kernel_dim: int = 4

    @property
    def layer_types(self) -> list[str]:
        """Every fourth layer is full attention."""
        kinds = ["linear_attention"] * (ATTENTION_EVERY - 1) + ["full_attention"]
        return kinds * (self.num_hidden_layers // ATTENTION_EVERY)


@dataclass(frozen=True, slots=True)
class PublishedShape:
    """A release in bf16, its head in float32."""

    release_bytes: float
    """Of its weight files, in bf16, the head's among them."""
    head_parameters: float
    head_width: int
    text: TextShape

    @property
    def weights_bytes(self) -> float:
        """On the device. The head is there in float32, which is twice its file."""
        return self.release_bytes + self.head_parameters * (FLOAT32 - BFLOAT16)

    @property
    def footprint(self) -> Footprint:
        """Of a kept state."""
        return Footprint.of(self.text, self.head_width, BFLOAT16)


PUBLISHED = {
    "clef-flash": PublishedShape(
        release_bytes=19.1e9,
        head_parameters=121.8e6,
        head_width=1024,
        text=TextShape(
            num_hidden_layers=32,
            hidden_size=4096,
            intermediate_size=12288,
            num_attention_heads=16,
            linear_num_value_heads=32,
        ),
    ),
    "clef": PublishedShape(
        release_bytes=55.0e9,
        head_parameters=128.1e6,
        head_width=1024,
        text=TextShape(
            num_hidden_layers=64,
            hidden_size=5120,
            intermediate_size=17408,
            num_attention_heads=24,
            linear_num_value_heads=48,
        ),
    ),
}
