from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from clef.errors import ReleaseError
from clef.kernels import can_pack, missing_kernels, refusal
from clef.model import ClefModel
from clef.packed import install
from clef.settings import ModelSettings
from tests.clef.golden_records import record
from tests.golden_cases import RELEASE

BOTH = ["flash-linear-attention", "causal-conv1d"]


@pytest.mark.parametrize("missing", [BOTH, BOTH[:1], BOTH[1:]])
def test_cuda_without_a_kernel_is_refused_by_name(missing: list[str]) -> None:
    reason = refusal("cuda", missing, allow_slow=False)
    assert reason is not None and "CLEF_ALLOW_SLOW_KERNELS=1" in reason
    assert [name for name in BOTH if name in reason] == missing


@pytest.mark.parametrize(
    ("device", "missing", "allow_slow"), [("cuda", [], False), ("cuda", BOTH, True), ("cpu", BOTH, False)]
)
def test_all_else_is_served(device: str, missing: list[str], allow_slow: bool) -> None:
    assert refusal(device, missing, allow_slow) is None


def test_kernels_are_looked_for_where_transformers_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fla", "fla.ops", "fla.ops.gated_delta_rule", "causal_conv1d"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert missing_kernels() == BOTH
    sys.modules["fla.ops.gated_delta_rule"].chunk_gated_delta_rule = print  # type: ignore[attr-defined]
    assert missing_kernels() == BOTH[1:]
    sys.modules["causal_conv1d"].causal_conv1d_fn = print  # type: ignore[attr-defined]
    assert missing_kernels() == []


def test_a_model_on_cuda_is_not_loaded_without_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "causal_conv1d", None)
    with pytest.raises(ReleaseError, match="causal-conv1d"):
        ClefModel.load(ModelSettings(release=RELEASE), "cuda:0")


def test_cuda_without_cuda_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ReleaseError, match="PyTorch sees no CUDA"):
        ClefModel.load(ModelSettings(release=RELEASE), "cuda:0")


@pytest.mark.parametrize(
    ("device", "dtype", "missing", "packs"),
    [
        ("cuda", torch.bfloat16, [], True),
        ("cuda", torch.float32, [], False),
        ("cuda", torch.bfloat16, BOTH[1:], False),
        ("cpu", torch.bfloat16, [], False),
    ],
)
def test_records_are_packed_where_every_layer_has_its_kernel(
    device: str, dtype: torch.dtype, missing: list[str], packs: bool
) -> None:
    assert can_pack(device, dtype, missing) == packs


def test_transformers_own_loops_never_mix_packed_records() -> None:
    """Where its packages are not there it says so, rather than to read all records as one."""
    loaded = ClefModel.load(ModelSettings(release=RELEASE, device="cpu"), "cpu")
    install(loaded._trunk.model)
    loaded.packs = True
    with pytest.raises(ValueError, match="can't keep packed sequences apart"):
        loaded.score([record("three-types"), record("one-option")])
