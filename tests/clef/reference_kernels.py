"""What stands in for the kernels of packed records on a CPU: transformers' and PyTorch's own, record by record.

They have the names and arguments of the packages that they stand in for, since transformers hands a kernel only what
it names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.integrations.hub_kernels import use_kernel_func_from_hub_with_fallback
from transformers.models.qwen3_5 import modeling_qwen3_5 as modeling

CONV, DELTA = modeling.causal_conv1d_fn, modeling.torch_chunk_gated_delta_rule


def causal_conv1d_fn(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    seq_idx: Tensor | None = None,
    initial_states: Tensor | None = None,
    return_final_states: bool = False,
    final_states_out: Tensor | None = None,
    activation: str | None = None,
) -> Tensor:
    """causal-conv1d's. x: [B, C, T]; seq_idx: [B, T]"""
    if seq_idx is None:
        return CONV(x, weight, bias, activation)
    assert seq_idx.dtype == torch.int32 and seq_idx.shape == (len(x), x.shape[2])
    assert x.stride(1) == 1  # all that the kernel takes with seq_idx
    counts = torch.unique_consecutive(seq_idx[0], return_counts=True)[1].tolist()
    return torch.cat([CONV(part, weight, bias, activation) for part in x.split(counts, dim=2)], dim=2)


def chunk_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """flash-linear-attention's. Of [B, T, …] each."""
    given = {
        "initial_state": initial_state,
        "output_final_state": output_final_state,
        "use_qk_l2norm_in_kernel": use_qk_l2norm_in_kernel,
    }
    if cu_seqlens is None:
        return DELTA(q, k, v, g, beta, **given)
    parts = [DELTA(*(each[:, cut] for each in (q, k, v, g, beta)), **given)[0] for cut in _cuts(cu_seqlens)]
    return torch.cat(parts, dim=1), None


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    scale: float,
    window_size: tuple[int, int],
    enable_gqa: bool,
) -> Tensor:
    """PyTorch's own, as we call it. Of [T, A, D] each."""
    assert cu_seq_q is cu_seq_k and cu_seq_q.dtype == torch.int32 and window_size == (-1, 0)
    assert max_q == max_k == int(cu_seq_q.diff().max()) and len(query) == len(key) == int(cu_seq_q[-1])
    by_head = [each.transpose(0, 1) for each in (query, key, value)]
    mixed = [
        F.scaled_dot_product_attention(
            *(each[None, :, cut] for each in by_head), is_causal=True, scale=scale, enable_gqa=enable_gqa
        )
        for cut in _cuts(cu_seq_q)
    ]
    return torch.cat(mixed, dim=2)[0].transpose(0, 1)


def _cuts(cu_seqlens: Tensor) -> Iterator[slice]:
    return (slice(*ends) for ends in pairwise(cu_seqlens.tolist()))


def place(patch: pytest.MonkeyPatch, **others: Any) -> None:
    """Let transformers find these, or `others` by name, where it looks for the packages, and us for PyTorch's."""
    patch.setattr("clef.packed.varlen_attn", others.get("varlen_attn", varlen_attn))
    for kernel, package, ours, fallback in (
        (causal_conv1d_fn, "causal_conv1d", "causal_conv1d_fn", CONV),
        (chunk_gated_delta_rule, "fla", "torch_chunk_gated_delta_rule", DELTA),
    ):
        name = kernel.__name__
        module = ModuleType(package)
        setattr(module, name, others.get(name, kernel))
        patch.setitem(sys.modules, package, module)
        patch.setattr(modeling, ours, use_kernel_func_from_hub_with_fallback(name, package)(fallback))
