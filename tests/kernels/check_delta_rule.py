"""flash-linear-attention's own kernels, interpreted on a CPU, beside transformers' loops: tiny shapes, in float32.

Needs TRITON_INTERPRET=1. What is checked is what the kernels compute and how transformers calls them; not their
compilation, their bfloat16, or their speed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import _implicit_cvt

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the packages: no GPU is here, and what they use is deprecated
    import fla.ops.common.chunk_delta_h as chunk_delta_h
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from transformers.models.qwen3_5 import modeling_qwen3_5 as modeling

from clef.packed import install
from tests.clef.golden_records import expected, record
from tests.clef.reference_kernels import place
from tests.clef.test_packed import fresh

KERNEL = modeling.torch_chunk_gated_delta_rule
LOOPS = KERNEL.__wrapped__
KEY_HEADS, VALUE_HEADS, SIZE = 2, 4, 16


def counted(*bounds: object) -> Iterator[object]:
    """`range` for a kernel that asks its counter for a Triton type, which the interpreter's has not."""
    return (_implicit_cvt(place) for place in range(*map(int, bounds)))


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    # The tuner times on a device; whichever variant it takes computes the same.
    monkeypatch.setattr(Autotuner, "do_bench", property(lambda self: lambda call, quantiles: [0.0] * len(quantiles)))
    monkeypatch.setattr(chunk_delta_h, "range", counted, raising=False)


def inputs(length: int, seed: int) -> dict[str, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    return {
        "query": torch.randn(1, length, KEY_HEADS, SIZE, generator=chance),
        "key": torch.randn(1, length, KEY_HEADS, SIZE, generator=chance),
        "value": torch.randn(1, length, VALUE_HEADS, SIZE, generator=chance),
        "g": -torch.rand(1, length, VALUE_HEADS, generator=chance),
        "beta": torch.rand(1, length, VALUE_HEADS, generator=chance),
    }


def call(function: object, given: dict[str, Tensor], **options: object) -> tuple[Tensor, Tensor | None]:
    """As Qwen3_5's layer calls it."""
    rest = {name: given[name] for name in ("g", "beta")}
    return function(  # type: ignore[operator]
        given["query"], given["key"], given["value"], **rest, use_qk_l2norm_in_kernel=True, **options
    )


@pytest.mark.parametrize("lengths", [[5, 70, 1, 64], [64, 64], [3]])
def test_packed_records_are_what_each_is_alone(lengths: list[int]) -> None:
    given = inputs(sum(lengths), seed=len(lengths))
    ends = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)
    packed, _ = call(KERNEL, given, cu_seqlens=ends)
    parts = zip(*(each.split(lengths, dim=1) for each in given.values()), strict=True)
    alone = [call(LOOPS, dict(zip(given, part, strict=True)))[0] for part in parts]
    torch.testing.assert_close(packed, torch.cat(alone, dim=1), atol=1e-5, rtol=0)


def test_a_state_is_continued() -> None:
    given = inputs(150, seed=0)
    whole, wanted = call(LOOPS, given, output_final_state=True)
    first, second = ({name: each[:, cut] for name, each in given.items()} for cut in (slice(70), slice(70, None)))
    before, state = call(KERNEL, first, output_final_state=True)
    behind, found = call(KERNEL, second, initial_state=state, output_final_state=True)
    torch.testing.assert_close(torch.cat([before, behind], dim=1), whole, atol=1e-5, rtol=0)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of pairs that the kernel masks afterwards
def test_a_packed_micro_batch_has_the_publishers_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole model; the convolution, which is written in CUDA, and attention are references, record by record."""
    place(monkeypatch, chunk_gated_delta_rule=chunk_gated_delta_rule)
    model = fresh()
    model.packs = True
    names = ["noul-only", "one-option"]
    install(model._trunk.model)
    for name, logits in zip(names, model.score([record(name) for name in names]), strict=True):
        np.testing.assert_allclose(logits, expected(name), atol=1e-4, rtol=0)
