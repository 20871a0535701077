from __future__ import annotations

import sys
from types import ModuleType

import pytest

from clef.errors import ReleaseError
from clef.kernels import missing_kernels, refusal
from clef.model import ClefModel
from clef.settings import ModelSettings
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
