"""Texts computed by graphs, by captures that stand in for CUDA's: they keep what was there, and give one tensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from clef.footprint import CHUNK
from clef.graphs import Graphs, Run
from clef.model import ClefModel
from clef.settings import ModelSettings
from tests.clef.golden_records import IMAGE_CASES, LONG_CASES, SHORT_CASES, TEXT_CASES, expected, record
from tests.clef.made_records import made
from tests.golden_cases import RELEASE

CPU = torch.device("cpu")
MOST = 512


class Captures:
    """What was captured, and how often each length was replayed."""

    def __init__(self) -> None:
        self.replayed: dict[int, int] = {}

    def __call__(self, run: Run, ids: Tensor) -> Callable[[], Tensor]:
        hidden, length = run(ids).clone(), ids.shape[1]
        self.replayed[length] = 0

        def replay() -> Tensor:
            self.replayed[length] += 1
            return hidden.copy_(run(ids))

        return replay


def loaded() -> ClefModel:
    return ClefModel.load(ModelSettings(release=RELEASE, device="cpu", graph_tokens=MOST), "cpu")


@pytest.fixture(scope="module")
def captures() -> Captures:
    return Captures()


@pytest.fixture(scope="module")
def graphed(captures: Captures) -> ClefModel:
    model = loaded()
    model._use_graphs(captures)
    assert model._trunk.graphs is not None
    return model


def test_one_graph_a_chunk_the_longest_first(graphed: ClefModel, captures: Captures) -> None:
    assert list(captures.replayed) == list(range(MOST, 0, -CHUNK))
    assert all(captures.replayed.values()), "the check at start looks at each"


@pytest.mark.parametrize("name", [name for name in SHORT_CASES if name in TEXT_CASES])
def test_a_text_alone_is_replayed_and_has_the_publishers_logits(
    graphed: ClefModel, captures: Captures, name: str
) -> None:
    before = dict(captures.replayed)
    np.testing.assert_allclose(graphed.score([record(name)])[0], expected(name), atol=1e-4, rtol=0)
    lengths = [length for length, count in captures.replayed.items() if count > before[length]]
    wanted = -(-record(name).length // CHUNK) * CHUNK
    assert lengths == ([wanted] if wanted <= MOST else [])


def test_nothing_else_is(graphed: ClefModel, captures: Captures) -> None:
    """Nor is anything captured once the check is over: an image, a text that is too long, or two of them."""
    before = dict(captures.replayed)
    for names in ([IMAGE_CASES[0]], [LONG_CASES[0]], ["one-option", "noul-only"]):
        for name, logits in zip(names, graphed.score([record(name) for name in names]), strict=True):
            np.testing.assert_allclose(logits, expected(name), atol=1e-4, rtol=0)
    assert captures.replayed == before


@pytest.mark.parametrize("length", [1, 63, 64, 65, MOST - 1, MOST])
def test_what_an_earlier_text_left_behind_is_not_seen(graphed: ClefModel, model: ClefModel, length: int) -> None:
    graphed.score([made(MOST, [3], seed=1)])
    short = made(length, [2, 3], seed=length)
    np.testing.assert_allclose(graphed.score([short])[0], model.score([short])[0], atol=1e-4, rtol=0)


def test_fewer_tokens_than_a_chunk_are_no_graph() -> None:
    graphs = Graphs(lambda ids: ids, CHUNK - 1, CPU, Captures())
    assert graphs(torch.zeros((1, 1), dtype=torch.int64)) is None


def stale(run: Run, ids: Tensor) -> Callable[[], Tensor]:
    """Replays what it was captured with, as where a kernel read its input on the host."""
    hidden = run(ids).clone()
    return lambda: hidden


def uncapturable(run: Run, ids: Tensor) -> Callable[[], Tensor]:
    raise RuntimeError("operation not permitted when stream is capturing")


@pytest.mark.parametrize(("capture", "told"), [(stale, "graphs are off by"), (uncapturable, "cannot be captured")])
def test_a_graph_that_is_not_the_pass_is_found_out(
    caplog: pytest.LogCaptureFixture, capture: Callable[[Run, Tensor], Callable[[], Tensor]], told: str
) -> None:
    model = loaded()
    model._use_graphs(capture)
    assert told in caplog.text and model._trunk.graphs is None
    np.testing.assert_allclose(model.score([record("noul-only")])[0], expected("noul-only"), atol=1e-4, rtol=0)


def test_a_cpu_has_none() -> None:
    model = loaded()
    model.warm_up()
    assert model._trunk.graphs is None
