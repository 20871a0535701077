"""The kernels that a Gated DeltaNet needs on CUDA to be fast.

transformers looks for both packages itself and falls back without a word that a caller would see: correct answers, by
slow loops.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection

import torch

WANTED = {
    "flash-linear-attention": ("fla.ops.gated_delta_rule", "chunk_gated_delta_rule"),
    "causal-conv1d": ("causal_conv1d", "causal_conv1d_fn"),
}


def missing_kernels() -> list[str]:
    """The packages whose kernel cannot be imported."""
    return [package for package, (module, name) in WANTED.items() if not _found(module, name)]


def refusal(device_type: str, missing: Collection[str], allow_slow: bool) -> str | None:
    """Why the model must not be served on this device, or None. Only CUDA has a fast path to miss."""
    if device_type != "cuda" or not missing or allow_slow:
        return None
    return (
        f"{' and '.join(sorted(missing))} cannot be imported: on CUDA the model would run several times slower. "
        "Install requirements/gpu.txt, or set CLEF_ALLOW_SLOW_KERNELS=1 to serve slowly"
    )


def can_pack(device_type: str, dtype: torch.dtype, missing: Collection[str]) -> bool:
    """Whether every layer has a kernel for packed records (`clef.packed`); attention's takes half precision alone."""
    return device_type == "cuda" and dtype is torch.bfloat16 and not missing


def _found(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name)
    except Exception:
        # A package built for another CUDA or torch fails in its own ways; transformers would skip it just the same.
        return False
