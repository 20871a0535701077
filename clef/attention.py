"""The head's attentions over ragged records.

Axes: B records, L tokens of the longest, N queries of all records, M queries of the largest record, W width, A heads,
D = W / A.

Queries are few and memory rows are many, so cross attention has two ways to the same result. *Projected* makes keys
and values of every memory row. *Folded* makes none: the key projection is applied to the queries, which then meet the
memory itself, and the value projection to what they gathered. By multiplications folding is cheaper up to about W / A
queries a record; `folding_pays` counts them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from clef.ragged import Ragged


@dataclass(frozen=True, eq=False, slots=True)
class Linear:
    weight: Tensor  # [outputs, inputs]
    bias: Tensor | None = None

    def __call__(self, rows: Tensor) -> Tensor:
        return F.linear(rows, self.weight, self.bias)


@dataclass(frozen=True, eq=False, slots=True)
class Memory:
    """What the queries of each record attend to."""

    grid: Tensor  # [B, L, W]
    bias: Tensor | None  # [B, L]: 0 on tokens, -inf on padding; None without padding
    scale: Tensor | None = None  # [B, L]: what a LayerNorm multiplies each row by; None without one


def folding_pays(queries: Ragged, length: int, width: int, heads: int) -> bool:
    """Whether folded cross attention takes fewer multiplications than projected over `length` memory rows a record."""
    padded = queries.groups * queries.most
    folding = (padded + queries.rows) * width + 2 * heads * padded * length
    return folding < 2 * (queries.groups * width + padded) * length


@dataclass(frozen=True, eq=False, slots=True)
class CrossAttention:
    """Queries to memory. What does not move a softmax (the key bias) is left out; 1 / √D is in the keys' weights."""

    heads: int
    query: Linear
    keys: Tensor  # [W, W]
    values: Tensor  # [W, W]
    out: Linear  # its bias carries the values' bias, as attention weights sum to 1

    @classmethod
    def of(
        cls, projections: Linear, out: Linear, heads: int, memory_norm: tuple[Tensor, Tensor] | None = None
    ) -> CrossAttention:
        """From packed query, key and value projections [3W, W].

        With `memory_norm` (scale and shift of a LayerNorm on the memory) the norm is in the weights, but for each row's
        own scale, which the memory is to be given with.
        """
        assert projections.bias is not None and out.bias is not None
        query, keys, values = projections.weight.chunk(3)
        query_bias, _, value_bias = projections.bias.chunk(3)
        keys = keys * (query.shape[0] // heads) ** -0.5
        if memory_norm is not None:
            scale, shift = memory_norm
            value_bias = value_bias + values @ shift
            keys, values = _centred(keys * scale), _centred(values * scale)
        out = Linear(out.weight, out.bias + out.weight @ value_bias)
        return cls(heads, Linear(query, query_bias), keys, values.contiguous(), out)

    def __call__(self, rows: Tensor, queries: Ragged, memory: Memory) -> Tensor:
        """[N, W] → [N, W]"""
        if folding_pays(queries, memory.grid.shape[1], rows.shape[1], self.heads):
            return self.folded(rows, queries, memory)
        return self.projected(rows, queries, memory)

    def folded(self, rows: Tensor, queries: Ragged, memory: Memory) -> Tensor:
        grid = queries.pad(self.query(rows)).flatten(0, 1)  # [B·M, W]
        count, width = grid.shape
        split = (self.heads, width // self.heads, width)
        folded = grid.new_empty(count, self.heads, width)
        by_head = grid.view(count, self.heads, -1).transpose(0, 1)  # [A, B·M, D]
        torch.bmm(by_head, self.keys.view(split), out=folded.transpose(0, 1))
        per_record = folded.view(queries.groups, -1, width)  # [B, M·A, W]
        weights = _weights(per_record, memory)
        # What they gather takes the place of the queries.
        torch.bmm(weights, memory.grid, out=per_record)
        gathered = queries.unpad(folded.view(queries.groups, queries.most, self.heads, width))  # [N, A, W]
        values = torch.bmm(gathered.transpose(0, 1), self.values.view(split).transpose(1, 2))  # [A, N, D]
        return self.out(values.transpose(0, 1).reshape(-1, width))

    def projected(self, rows: Tensor, queries: Ragged, memory: Memory) -> Tensor:
        query = _heads(queries.pad(self.query(rows)), self.heads)
        grid = memory.grid if memory.scale is None else memory.grid * memory.scale.unsqueeze(-1)
        keys, values = (_heads(F.linear(grid, weights), self.heads) for weights in (self.keys, self.values))
        mask = None if memory.bias is None else memory.bias[:, None, None]
        mixed = F.scaled_dot_product_attention(query, keys, values, mask, scale=1.0)  # [B, A, M, D]
        return self.out(queries.unpad(mixed.transpose(1, 2).flatten(2)))


def _centred(weights: Tensor) -> Tensor:
    """The weights that see rows as if their mean were taken off before."""
    return weights - weights.mean(1, keepdim=True)


def _weights(queries: Tensor, memory: Memory) -> Tensor:
    """What queries [B, M·A, W] gather of each row of unprojected memory: [B, M·A, L]; the softmax is in float32."""
    keys, scale = memory.grid.transpose(1, 2), None if memory.scale is None else memory.scale[:, None]
    scores = torch.bmm(queries, keys) if memory.bias is None else torch.baddbmm(memory.bias[:, None], queries, keys)
    # The bias is 0 or -inf: scaling leaves it as it is.
    weights = torch.softmax(scores if scale is None else scores.mul_(scale), -1, dtype=torch.float32).to(queries.dtype)
    return weights if scale is None else weights.mul_(scale)


@dataclass(frozen=True, eq=False, slots=True)
class SelfAttention:
    """The rows of a group among themselves."""

    heads: int
    projections: Linear  # [3W, W]
    out: Linear

    def __call__(self, rows: Tensor, groups: Ragged) -> Tensor:
        """[N, W] → [N, W]"""
        query, keys, values = (_heads(part, self.heads) for part in groups.pad(self.projections(rows)).chunk(3, dim=-1))
        bias = groups.bias(rows.dtype, rows.device)
        mixed = F.scaled_dot_product_attention(query, keys, values, None if bias is None else bias[:, None, None])
        return self.out(groups.unpad(mixed.transpose(1, 2).flatten(2)))


def _heads(grid: Tensor, heads: int) -> Tensor:
    """[B, M, W] → [B, A, M, D]"""
    return grid.view(*grid.shape[:2], heads, -1).transpose(1, 2)
