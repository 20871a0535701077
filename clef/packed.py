"""Records end to end in one row, without padding: what keeps them apart in each layer of the trunk.

On CUDA every kind of layer has a kernel for it: DeltaNet flash-linear-attention's, told by `cu_seqlens`; its
convolution causal-conv1d's, told by `seq_idx`; attention PyTorch's `varlen_attn`. transformers passes what it is given
by these names on to the first two, and has functions of attention registered. What of it has no such kernel, raises:
transformers' own loops do not take packed records.

Source: transformers 5.24, the calls of Qwen3_5's layers; flash-linear-attention 0.6; causal-conv1d 1.7; torch 2.13.

Axes: B records, T tokens of all of them, S tokens of a row, A heads, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from clef.media import AXES
from clef.ragged import offsets, ranges, upload

ATTENTION = "clef_packed"


def install(model: Any) -> None:
    """Let the attention of transformers' `model` take packed records, beside all that it took."""
    AttentionInterface.register(ATTENTION, attend)
    model.set_attn_implementation({"text_config": ATTENTION})


def boundaries(lengths: Sequence[int], device: torch.device) -> tuple[Tensor, dict[str, Any]]:
    """Positions of text [3, 1, T], and what keeps records of these lengths apart, as transformers passes it on."""
    counts = np.array(lengths)
    positions, cu_seqlens, seq_idx = upload(
        [ranges(np.zeros_like(counts), counts), offsets(counts), np.repeat(np.arange(len(counts)), counts)], device
    )
    kernels = {"cu_seq_lens_q": cu_seqlens.to(torch.int32), "seq_idx": seq_idx[None].to(torch.int32)}
    return positions.expand(AXES, 1, -1), kernels | {"max_length_q": max(lengths)}


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int = 0,
    **others: Any,
) -> tuple[Tensor, None]:
    """Causal attention within each of packed records; of rows, where no records are packed, as transformers has it.

    query: [B, A, S, D], packed [1, A, T, D]; key and value have fewer heads. Returns [B, S, A, D].
    """
    if cu_seq_lens_q is None:
        mixed, _ = sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **others)
        return mixed, None
    mixed = varlen_attn(
        query[0].transpose(0, 1),  # [T, A, D]
        key[0].transpose(0, 1),
        value[0].transpose(0, 1),
        cu_seq_lens_q,
        cu_seq_lens_q,
        max_length_q,
        max_length_q,
        scale=scaling,
        window_size=(-1, 0),  # causal
        enable_gqa=True,
    )
    assert isinstance(mixed, Tensor)
    return mixed.unsqueeze(0), None
