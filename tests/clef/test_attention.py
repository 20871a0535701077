"""Both ways of cross attention against torch's own module, one record at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clef.attention import CrossAttention, Linear, Memory, folding_pays
from clef.norm import inverted_deviation
from tests.clef.test_ragged import CPU, ragged

WIDTH, HEADS = 32, 4
COUNTS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 20)), min_size=1, max_size=5)


def reference(seed: int) -> torch.nn.MultiheadAttention:
    torch.manual_seed(seed)
    module = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    for bias in (module.in_proj_bias, module.out_proj.bias):
        torch.nn.init.normal_(bias)
    return module


def ours(module: torch.nn.MultiheadAttention, norm: torch.nn.LayerNorm | None) -> CrossAttention:
    return CrossAttention.of(
        Linear(module.in_proj_weight, module.in_proj_bias),
        Linear(module.out_proj.weight, module.out_proj.bias),
        HEADS,
        None if norm is None else (norm.weight, norm.bias),
    )


@pytest.mark.parametrize("way", ["folded", "projected"])
@given(COUNTS, st.integers(0, 99), st.booleans())
@torch.inference_mode()
def test_both_ways_give_what_attention_gives(way: str, counts: list[tuple[int, int]], seed: int, normed: bool) -> None:
    module = reference(seed)
    norm = torch.nn.LayerNorm(WIDTH)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    queries = [torch.randn(count, WIDTH) for count, _ in counts]
    memories = [torch.randn(length, WIDTH) for _, length in counts]

    def read(query: Tensor, memory: Tensor) -> Tensor:
        rows = norm(memory) if normed else memory
        result: Tensor = module(query[None], rows[None], rows[None], need_weights=False)[0][0]
        return result

    tokens = ragged(np.array([length for _, length in counts]))
    # Padding holds whatever the trunk left there.
    grid = tokens.pad(torch.cat(memories), fill=123.0)
    memory = Memory(grid, tokens.bias(torch.float32, CPU), inverted_deviation(grid) if normed else None)
    attention = ours(module, norm if normed else None)
    call = attention.folded if way == "folded" else attention.projected
    result = call(torch.cat(queries), ragged(np.array([count for count, _ in counts])), memory)
    wanted = torch.cat([read(query, memory) for query, memory in zip(queries, memories, strict=True)])
    torch.testing.assert_close(result, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("width", "heads", "length"), [(1024, 16, 250), (1024, 16, 8000), (64, 4, 250)])
def test_few_queries_fold_and_many_project(width: int, heads: int, length: int) -> None:
    pays = [folding_pays(ragged(np.full(8, count)), length, width, heads) for count in (1, 8, 2 * width // heads)]
    assert pays == [True, True, False]


def test_the_cheaper_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    for way in ("folded", "projected"):
        monkeypatch.setattr(CrossAttention, way, lambda *_, way=way: taken.append(way))
    attention = ours(reference(0), None)
    for count in (1, 64):
        attention(torch.zeros(count, WIDTH), ragged(np.array([count])), Memory(torch.zeros(1, 50, WIDTH), None))
    assert taken == ["folded", "projected"]
