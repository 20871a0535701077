"""What of a release fits on a graphics card: `python -m launch card GIGABYTES`. By arithmetic, not measured.

On the card lie the weights, CUDA's own, the working memory of a micro-batch, and the state cache. Working memory is
taken as the tensors of the largest layer that are alive at once, which is the Gated DeltaNet: its projections and
their convolved copy, and what its chunked kernel makes, one state every 64 tokens among it. The images' tower is not in
the sum. A half more is added for what the allocator cannot use.
"""

from __future__ import annotations

from dataclasses import dataclass

from clef.footprint import CHUNK
from clef.settings import ModelSettings
from launch.published import BFLOAT16, FLOAT32, PUBLISHED, PublishedShape, TextShape

GB = 1e9
CUDA_BYTES = 0.75e9
"""CUDA's context, its libraries' workspaces and kernels; an allowance."""
ALLOWANCE = 1.5
TOKENS = (16_384, 8_192, 4_096, 2_048)
STATE_TOKENS = 4_000
BATCH_TOKENS: int = ModelSettings.model_fields["batch_tokens"].default


@dataclass(frozen=True, slots=True)
class Fit:
    """One way to divide a card."""

    tokens: int
    """Of the largest micro-batch: `CLEF_BATCH_TOKENS`, or one record of `CLEF_MAX_LENGTH`."""
    working: float
    left: float
    """Bytes for the state cache; negative where it does not fit."""
    states: int
    """States of 4,000 tokens that these hold."""


def working_bytes(text: TextShape) -> int:
    """Of each padded token of a micro-batch, at the most."""
    keys = text.linear_num_key_heads * text.linear_key_head_dim
    values = text.linear_num_value_heads * text.linear_value_head_dim
    channels = 2 * keys + values
    state = text.linear_num_value_heads * text.linear_key_head_dim * text.linear_value_head_dim
    residual = 2 * text.hidden_size  # the stream, and its normalised copy
    projected = values + 2 * channels  # the gate; queries, keys and values convolved, and in the kernel's order
    kernel = 2 * keys + 4 * values + state // CHUNK  # normalised keys; its w, u, new values and output; states
    scores = text.linear_num_value_heads * CHUNK  # within a chunk, in float32 and then in the trunk's type
    mlp = residual + 3 * text.intermediate_size
    linear = residual + projected + kernel + scores
    return max(mlp * BFLOAT16, linear * BFLOAT16 + scores * FLOAT32)


def fit(shape: PublishedShape, card: float, tokens: int) -> Fit:
    """What is left of a card of so many bytes where a micro-batch has at most so many padded tokens."""
    working = ALLOWANCE * tokens * working_bytes(shape.text)
    left = card - CUDA_BYTES - shape.weights_bytes - working
    return Fit(tokens, working, left, max(0, int(left // shape.footprint.prefix(STATE_TOKENS))))


def chosen(shape: PublishedShape, card: float) -> Fit | None:
    """The most tokens with which the card still keeps a state of as many; None where nothing fits."""
    fits = (fit(shape, card, tokens) for tokens in TOKENS)
    return next((found for found in fits if found.left >= shape.footprint.prefix(found.tokens)), None)


def table(card_gb: float) -> str:
    """Every published release on a card, as Markdown."""
    lines = [
        "| release | weights | tokens at once | its working memory | left for states | of 4,000 tokens each |",
        "|---|---|---|---|---|---|",
    ]
    for name, shape in PUBLISHED.items():
        if shape.weights_bytes + CUDA_BYTES > card_gb * GB:
            lines.append(f"| `{name}` | {_gb(shape.weights_bytes)} | does not fit | | | |")
            continue
        for tokens in TOKENS:
            found = fit(shape, card_gb * GB, tokens)
            left = _gb(found.left) if found.left > 0 else "does not fit"
            lines.append(
                f"| `{name}` | {_gb(shape.weights_bytes)} | {tokens:,} | {_gb(found.working)} | {left} "
                f"| {found.states} |"
            )
    return "\n".join(lines)


def states() -> str:
    """What kept states cost, as Markdown."""
    lines = [
        "| in bf16 | a token | a boundary | one every | 4,000 tokens | in 1 GiB |",
        "|---|---|---|---|---|---|",
    ]
    for name, shape in PUBLISHED.items():
        cost = shape.footprint
        whole = cost.prefix(STATE_TOKENS)
        lines.append(
            f"| `{name}` | {cost.token / 2**10:.0f} KiB | {cost.boundary / 1e6:.1f} MB | {cost.spacing:,} tokens "
            f"| {whole / 1e6:.0f} MB | {2**30 // whole} of these |"
        )
    return "\n".join(lines)


def settings(shape: PublishedShape, card_gb: float) -> str | None:
    """Environment variables that fit; the state cache in whole 256 MiB. None where nothing fits."""
    found = chosen(shape, card_gb * GB)
    if found is None:
        return None
    cache = int(found.left) >> 28 << 28
    batch = min(found.tokens, BATCH_TOKENS)
    return f"CLEF_MAX_LENGTH={found.tokens} CLEF_BATCH_TOKENS={batch} CLEF_STATE_CACHE_BYTES={cache}"


def report(card_gb: float) -> str:
    """Both tables, and the settings that each published release begins with on a card of so many 10^9 bytes."""
    chosen_settings = [f"{name}: {settings(shape, card_gb) or 'does not fit'}" for name, shape in PUBLISHED.items()]
    return "\n\n".join((table(card_gb), states(), "\n".join(chosen_settings)))


def _gb(count: float) -> str:
    return f"{count / GB:.1f} GB"
