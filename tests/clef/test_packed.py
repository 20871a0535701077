"""Records in one row, by kernels that stand in for CUDA's: each answers as it does alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from clef.batch import Record
from clef.collate import collate
from clef.footprint import CHUNK
from clef.head import JointHead
from clef.model import ClefModel
from clef.packed import boundaries
from clef.prefix import Prefix
from clef.release import open_release
from clef.settings import ModelSettings
from clef.trunk import Trunk
from tests.clef.golden_records import LONG_CASES, SHORT_CASES, any_mix, expected, images_beside_text, record
from tests.clef.made_records import made, record_lists
from tests.clef.reference_kernels import causal_conv1d_fn, chunk_gated_delta_rule, place, varlen_attn
from tests.clef.test_media import MIXED, shown
from tests.golden_cases import RELEASE, tolerance

CPU = torch.device("cpu")


def fresh(dtype: torch.dtype = torch.float32) -> ClefModel:
    """A model that may pack, as one on CUDA, before its warm-up."""
    trunk = Trunk.load(RELEASE, CPU, dtype)
    return ClefModel(
        trunk, JointHead.load(open_release(RELEASE), CPU), CPU, ModelSettings(release=RELEASE), can_pack=True
    )


@pytest.fixture(scope="module")
def packing() -> Iterator[ClefModel]:
    """After its warm-up, with the kernels in their places."""
    with pytest.MonkeyPatch.context() as patch:
        place(patch)
        loaded = fresh()
        loaded.warm_up()
        assert loaded.packs and loaded.states.enabled
        yield loaded


def assert_golden(model: ClefModel, names: list[str]) -> None:
    padding = model.totals.padding_tokens
    for name, logits in zip(names, model.score([record(name) for name in names]), strict=True):
        np.testing.assert_allclose(logits, expected(name), atol=tolerance(name), rtol=0, err_msg=name)
    assert model.totals.padding_tokens == padding


@pytest.mark.parametrize("seed", range(12))
def test_golden_cases_in_any_mix(packing: ClefModel, seed: int) -> None:
    assert_golden(packing, any_mix(seed))


@pytest.mark.parametrize("seed", range(3))
def test_images_beside_text(packing: ClefModel, seed: int) -> None:
    assert_golden(packing, images_beside_text(seed))


@pytest.mark.parametrize("name", LONG_CASES)
def test_a_long_case_before_a_short_one(packing: ClefModel, name: str) -> None:
    assert_golden(packing, [name, "one-option"])


@settings(max_examples=30)
@given(records=record_lists())
def test_any_records_score_as_they_do_padded(packing: ClefModel, model: ClefModel, records: list[Record]) -> None:
    for packed, padded in zip(packing.score(records), model.score(records), strict=True):
        np.testing.assert_allclose(packed, padded, atol=1e-4, rtol=0)


@torch.inference_mode()
def test_videos_and_images_stand_where_they_stand_alone(packing: ClefModel, model: ClefModel) -> None:
    records = [shown((2, 4, 4)), MIXED, made(7, [1]), MIXED]
    hidden = packing._trunk.forward(collate(records, CPU, packed=True))
    assert hidden.shape[:2] == (1, sum(each.length for each in records))
    for part, each in zip(hidden[0].split([each.length for each in records]), records, strict=True):
        torch.testing.assert_close(part, model._trunk.forward(collate([each], CPU))[0], atol=1e-4, rtol=0)


def test_records_behind_a_state_are_padded_as_ever(packing: ClefModel) -> None:
    long = record(LONG_CASES[0])
    prefix = Prefix.of(long, packing.states.footprint.spacing)
    for logits in packing.score([long, long], prefix):
        np.testing.assert_allclose(logits, expected(LONG_CASES[0]), atol=1e-4, rtol=0)


def test_boundaries() -> None:
    positions, kernels = boundaries([3, 1, 2], CPU)
    assert positions.tolist() == [[[0, 1, 2, 0, 0, 1]]] * 3
    assert kernels["cu_seq_lens_q"].tolist() == [0, 3, 4, 6] and kernels["max_length_q"] == 3
    assert kernels["seq_idx"].tolist() == [[0, 0, 0, 1, 2, 2]]


def test_records_are_packed_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    place(monkeypatch)
    loaded = fresh(torch.bfloat16)
    loaded.warm_up()
    assert loaded.packs
    for case, logits in zip(SHORT_CASES, loaded.score([record(case) for case in SHORT_CASES]), strict=True):
        np.testing.assert_allclose(logits, expected(case), atol=0.05, rtol=0)


class KernelError(Exception):
    """As Triton-language kernels have their own."""


@pytest.mark.parametrize("kind", [RuntimeError, ValueError, KernelError])
def test_a_device_without_a_kernel_pads(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: type[Exception]
) -> None:
    def missing(*_: Any, **__: Any) -> Tensor:
        raise kind("FlashAttention only supports Ampere GPUs or newer.")

    place(monkeypatch, varlen_attn=missing)
    loaded = fresh()
    loaded.warm_up()
    assert not loaded.packs and "records cannot be packed" in caplog.text


def without(kernel: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A kernel that is not told where records end."""

    @functools.wraps(kernel)
    def mixing(*args: Any, **kwargs: Any) -> Any:
        return kernel(*args, **kwargs | {name: None})

    return mixing


def one_record(query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, *_: Any, **others: Any) -> Tensor:
    ends, length = cu_seqlens[[0, -1]], len(query)
    return varlen_attn(query, key, value, ends, ends, length, length, **others)


def to_whole_chunks(*args: Any, cu_seqlens: Tensor | None = None, **kwargs: Any) -> Any:
    """A kernel for records of whole chunks."""
    if cu_seqlens is None:
        return chunk_gated_delta_rule(*args, **kwargs)
    rounded = (cu_seqlens / CHUNK).round().to(cu_seqlens.dtype) * CHUNK
    rounded[-1] = cu_seqlens[-1]
    return chunk_gated_delta_rule(*args, cu_seqlens=rounded, **kwargs)


@pytest.mark.parametrize(
    ("name", "careless"),
    [
        ("chunk_gated_delta_rule", functools.wraps(chunk_gated_delta_rule)(to_whole_chunks)),
        ("chunk_gated_delta_rule", without(chunk_gated_delta_rule, "cu_seqlens")),
        ("causal_conv1d_fn", without(causal_conv1d_fn, "seq_idx")),
        ("varlen_attn", one_record),
    ],
)
def test_a_kernel_that_mixes_records_is_found_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, careless: Any
) -> None:
    place(monkeypatch, **{name: careless})
    loaded = fresh()
    loaded.warm_up()
    assert not loaded.packs and "packed records are off by" in caplog.text
    names = ["three-types", "one-option"]
    for case, logits in zip(names, loaded.score([record(case) for case in names]), strict=True):
        np.testing.assert_allclose(logits, expected(case), atol=1e-4, rtol=0)
