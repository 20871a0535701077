"""LayerNorm, and what stands for it over rows so many that its result is never made.

Axes: B records, L tokens, T tokens of all records, S spans, H hidden, W width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

EPSILON = 1e-5
BLOCK_BYTES = 16 * 2**20
"""Of rows that are gathered at once: they stay in a CPU's cache, and in memory that malloc need not ask for anew."""


@dataclass(frozen=True, eq=False, slots=True)
class Norm:
    weight: Tensor
    bias: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        return F.layer_norm(rows, self.weight.shape, self.weight, self.bias, EPSILON)


def inverted_deviation(rows: Tensor) -> Tensor:
    """What LayerNorm multiplies each row by, once its mean is off: [..., n] → [...]"""
    mean = rows.mean(-1)
    variance = torch.linalg.vector_norm(rows, dim=-1).square() / rows.shape[-1] - mean.square()
    scale: Tensor = (variance.clamp(min=0) + EPSILON).rsqrt()
    return scale


class HiddenNorm:
    """LayerNorm of every hidden row, of which only a projection and the means of some spans are wanted.

    Normalised rows would be the head's largest tensor by far and cost as much as half of its layers to write. So the
    projection takes the rows as they are, with the norm's scale and the subtraction of the row's mean in its weights,
    and only the division by the deviation is left to its results.
    """

    def __init__(self, norm: Norm, projection: Tensor) -> None:
        """projection: [W, H]"""
        scaled = projection * norm.weight
        self._norm = norm
        self._centred = scaled - scaled.mean(1, keepdim=True)  # [W, H]
        self._shift = projection @ norm.bias  # [W]

    def project(self, hidden: Tensor, slots: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Projections [B, L, W] of the rows of `hidden` [B, L, H], and each row's inverted deviation [B, L].

        With `slots` [T], the rows that are tokens, padding is not projected: what stands there is finite.
        """
        scale = inverted_deviation(hidden)
        projected = F.linear(hidden, self._centred) if slots is None else self._project_some(hidden, slots)
        return torch.addcmul(self._shift, projected, scale.unsqueeze(-1), out=projected), scale

    def _project_some(self, hidden: Tensor, slots: Tensor) -> Tensor:
        """Of the rows at `slots` [T] alone; zeros elsewhere: [B, L, W]"""
        rows = hidden.flatten(0, 1)
        grid = hidden.new_zeros(len(rows), len(self._centred))
        for part in torch.split(slots, max(1, BLOCK_BYTES // (rows.shape[1] * rows.element_size()))):
            grid.index_copy_(0, part, F.linear(rows.index_select(0, part), self._centred))
        return grid.view(*hidden.shape[:2], -1)

    def __call__(self, hidden: Tensor, slots: Tensor | None, spans: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Projections [B, L, W] of the tokens in `hidden` [B, L, H] and the means [S, H] of its normalised spans.

        slots: see `project`; spans: numbers of rows of the flattened [B, L] grid, and where each span begins among
        them, [S + 1].
        """
        rows, offsets = spans
        projected, scale = self.project(hidden, slots)
        sums = F.embedding_bag(
            rows,
            hidden.flatten(0, 1),
            offsets,
            mode="sum",
            per_sample_weights=scale.flatten()[rows],
            include_last_offset=True,
        )
        means = sums / offsets.diff().unsqueeze(-1)
        centred = means - means.mean(-1, keepdim=True)
        return projected, centred * self._norm.weight + self._norm.bias
