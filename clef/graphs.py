"""CUDA graphs of the trunk: the pass over one short text, captured for a few lengths at start, and then only replayed.

A lone short text is bound by launches: Python starts some two thousand kernels one by one, for what a card computes in
little more time than it takes to read the weights once. A graph starts all of them together. Nothing is captured later:
a text is padded on the right to the next length that there is, and one that is longer than all of them is computed as
ever.

Why so: torch.compile would cut the trunk at every DeltaNet layer, whose kernels flash-linear-attention keeps out of it;
and what kernels of packed records start depends on where the records end, so that these cannot be captured.

Axes: L tokens, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import torch
from torch import Tensor

from clef.footprint import CHUNK

Run = Callable[[Tensor], Tensor]
"""Ids [1, L] → hidden states [1, L, H]."""
Capture = Callable[[Run, Tensor], Callable[[], Tensor]]
"""From a pass and its ids, what repeats it on what then stands in the ids, and gives the same tensor each time."""


class Graphs:
    """A pass over texts of up to `most` tokens, one graph every `CHUNK` of them."""

    def __init__(self, run: Run, most: int, device: torch.device, capture: Capture) -> None:
        self._ids = torch.zeros((1, most), dtype=torch.int64, device=device)
        # The longest first: what it computes in is then free for the others.
        lengths = range(most // CHUNK * CHUNK, 0, -CHUNK)
        self._replays = {length: capture(run, self._ids[:, :length]) for length in lengths}

    def __call__(self, ids: Tensor) -> Tensor | None:
        """Hidden states [1, L, H] of ids [1, L], until the next call; None where no graph is as long."""
        length = ids.shape[1]
        replay = self._replays.get(ceil(length / CHUNK) * CHUNK)
        if replay is None:
            return None
        self._ids[:, :length] = ids  # behind it stand ids of an earlier text, which nothing that counts looks at
        return replay()[:, :length]


def cuda_capture(device: torch.device) -> Capture:
    """Captures that share one memory, as large as the longest pass needs. Their hidden states are each one's own."""
    pool = torch.cuda.graph_pool_handle()
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def capture(run: Run, ids: Tensor) -> Callable[[], Tensor]:
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            run(ids)  # kernels are compiled and tuned for this length, which cannot be captured
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=stream):
            hidden = run(ids)

        def replay() -> Tensor:
            graph.replay()
            return hidden

        return replay

    return capture
