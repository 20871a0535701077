"""The head against the publisher's own, on the same weights and the same hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from clef.batch import Record
from clef.head import JointHead
from clef.head_weights import head_shapes, load_head_weights
from clef.layout import Layout
from clef.release import HeadConfig, open_release
from perf.head import published
from perf.publisher import publisher
from tests.clef.made_records import VOCABULARY, made, record_lists
from tests.golden_cases import RELEASE

CPU = torch.device("cpu")
OTHER_SHAPE = HeadConfig(hidden_size=48, width=24, routing_layers=1, layers=2, heads=3, feedforward=40)


@cache
def weights(which: str) -> tuple[HeadConfig, dict[str, Tensor]]:
    if which == "golden":
        config = open_release(RELEASE).head
        return config, load_head_weights(RELEASE / "joint_head.safetensors", config, CPU)
    chance = torch.Generator().manual_seed(1)
    drawn = {name: torch.randn(shape, generator=chance) for name, shape in head_shapes(OTHER_SHAPE).items()}
    return OTHER_SHAPE, {
        name: value * (value.shape[-1] ** -0.5 if value.ndim > 1 else 1) for name, value in drawn.items()
    }


@cache
def heads(which: str) -> tuple[JointHead, Any]:
    """Ours and the publisher's."""
    config, values = weights(which)
    theirs = publisher().JointSchemaHead(**asdict(config)).eval()
    theirs.load_state_dict(values, strict=True)
    return JointHead(config, values), theirs


@torch.inference_mode()
def score(which: str, records: Sequence[Record], seed: int, offset: float = 0.0) -> tuple[Tensor, Tensor]:
    """Ours and the publisher's logits of the same random hidden states; those of padding are random too."""
    ours, theirs = heads(which)
    hidden_size = weights(which)[0].hidden_size
    chance = torch.Generator().manual_seed(seed)
    vocabulary = torch.randn(VOCABULARY, hidden_size, generator=chance)
    longest = max(record.length for record in records)
    hidden = torch.randn(len(records), longest, hidden_size, generator=chance) + offset
    batch = publisher().collate_records([published(record) for record in records], 0, CPU)
    wanted = theirs(hidden, batch["input_ids"], batch["attention_mask"], batch["records"], vocabulary)
    return ours(hidden, Layout.of(records, CPU), vocabulary), torch.cat([torch.cat(logits) for logits in wanted])


@pytest.mark.parametrize("which", ["golden", "other"])
@given(records=record_lists(), seed=st.integers(0, 999), offset=st.sampled_from([0.0, 3.0]))
@example(records=[made(1, [1])], seed=0, offset=0.0)
@example(records=[made(90, [2, 3, 2]), made(1, [1]), made(60, [255])], seed=0, offset=0.0)
@example(records=[made(80, [2] * 64), made(80, [1])], seed=0, offset=0.0)
def test_logits_are_the_publishers(which: str, records: list[Record], seed: int, offset: float) -> None:
    ours, wanted = score(which, records, seed, offset)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, wanted, atol=1e-4, rtol=0)


def test_equal_records_take_the_paths_without_padding() -> None:
    records = [made(70, [2, 2, 2], seed) for seed in range(4)]
    layout = Layout.of(records, CPU)
    groupings = (layout.tokens, layout.questions, layout.options, layout.choices)
    assert [grouping.slots for grouping in groupings] == [None] * 4
    torch.testing.assert_close(*score("golden", records, 0), atol=1e-4, rtol=0)


def test_tokens_projected_in_several_blocks_score_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [made(90, [2, 3, 2]), made(30, [1]), made(60, [5])]
    monkeypatch.setattr("clef.norm.BLOCK_BYTES", 7 * weights("golden")[0].hidden_size * 4)
    torch.testing.assert_close(*score("golden", records, 0), atol=1e-4, rtol=0)


def test_every_published_weight_is_read() -> None:
    """Each weight moves the logits, but for the key biases, which no softmax can see."""
    config, values = weights("other")
    records = [made(40, [2, 3], 5), made(25, [4], 6)]
    hidden = torch.randn(2, 40, config.hidden_size, generator=torch.Generator().manual_seed(3))
    vocabulary = torch.randn(VOCABULARY, config.hidden_size, generator=torch.Generator().manual_seed(4))
    layout = Layout.of(records, CPU)
    before = JointHead(config, values)(hidden, layout, vocabulary)
    for name, value in values.items():
        chance = torch.Generator().manual_seed(5)
        moved = values | {name: value + 0.3 * torch.randn(value.shape, generator=chance)}
        assert (JointHead(config, moved)(hidden, layout, vocabulary) - before).abs().max() > 1e-4, name
