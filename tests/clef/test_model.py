"""A loaded release against the publisher's answers: every golden case, alone and in company."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from clef.batch import Record
from clef.errors import DeviceLost, InvalidRecord, ReleaseError
from clef.head import JointHead
from clef.head_weights import load_head_weights
from clef.model import ClefModel
from clef.prefix import Prefix
from clef.release import HEAD_WEIGHTS, open_release
from clef.settings import ModelSettings
from tests.clef.golden_records import LONG_CASES, any_mix, expected, images_beside_text, ints, record
from tests.clef.made_records import made
from tests.golden_cases import CASES, RELEASE, tolerance


def assert_golden(model: ClefModel, names: list[str]) -> None:
    """Each case of a micro-batch has the publisher's logits."""
    records = [record(name) for name in names]
    for item in records:
        model.check(item)
    for name, logits in zip(names, model.score(records), strict=True):
        assert logits.dtype == np.float32 and logits.shape == (record(name).options,)
        np.testing.assert_allclose(logits, expected(name), atol=tolerance(name), rtol=0, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_a_golden_case_alone(model: ClefModel, name: str) -> None:
    assert_golden(model, [name])


@pytest.mark.parametrize("seed", range(12))
def test_golden_cases_in_any_mix(model: ClefModel, seed: int) -> None:
    assert_golden(model, any_mix(seed))


@pytest.mark.parametrize("seed", range(3))
def test_images_of_several_records_in_one_batch(model: ClefModel, seed: int) -> None:
    assert_golden(model, images_beside_text(seed))


@pytest.mark.parametrize("name", LONG_CASES)
def test_a_short_case_padded_to_a_long_one(model: ClefModel, name: str) -> None:
    assert_golden(model, ["one-option", name])


def test_the_same_batch_twice_gives_the_same_bytes(model: ClefModel) -> None:
    records = [record(name) for name in ("three-types", "image-native-grid", "unicode")]
    first, second = ([logits.tobytes() for logits in model.score(records)] for _ in range(2))
    assert first == second


def test_a_text_that_spells_the_image_token_beside_an_image(model: ClefModel) -> None:
    spelt = record("noul-only")
    spelt = replace(spelt, input_ids=np.where(np.arange(spelt.length) == 70, ints(2005, 1), spelt.input_ids))
    alone = model.score([spelt])[0]
    assert np.abs(alone - expected("noul-only")).max() > 1e-4
    together = model.score([record("image-native-grid"), spelt])
    np.testing.assert_allclose(together[1], alone, atol=1e-5, rtol=0)
    np.testing.assert_allclose(together[0], expected("image-native-grid"), atol=1e-4, rtol=0)


@pytest.mark.parametrize("token", [-1, 2048])
def test_ids_outside_the_vocabulary_are_refused(model: ClefModel, token: int) -> None:
    with pytest.raises(InvalidRecord, match="vocabulary of 2048"):
        model.check(replace(made(3, [1]), input_ids=ints([1, token, 1], 3)))


def test_images_without_their_tokens_are_refused(model: ClefModel) -> None:
    shown = record("image-native-grid")
    with pytest.raises(InvalidRecord, match="holds 0 media tokens, its media need 64"):
        model.check(replace(shown, input_ids=np.zeros_like(shown.input_ids)))


def test_a_contradictory_record_is_refused(model: ClefModel) -> None:
    with pytest.raises(InvalidRecord):
        model.check(replace(made(3, [1]), state_end=9))


def test_a_record_at_the_longest_length_is_taken_and_one_token_more_is_not(model: ClefModel) -> None:
    model.check(made(16_384, [2]))
    with pytest.raises(InvalidRecord, match="16385 tokens; 16384 are allowed"):
        model.check(made(16_385, [2]))


HARD_CASES = ("state-special-token-text", "64-questions", "three-types", "image-native-grid", "noul-only")
"""Those of the golden cases that move most in bfloat16, and some others."""


def test_bfloat16_stays_near_and_the_head_in_float32_nearer() -> None:
    """What bfloat16 costs in the trunk, and what it would cost in the head too."""
    loaded = ClefModel.load(ModelSettings(release=RELEASE, dtype="bfloat16"), "cpu")
    release = open_release(RELEASE)
    weights = load_head_weights(release.path / HEAD_WEIGHTS, release.head, torch.device("cpu"))
    heads = {
        "float32": loaded._head,
        "bfloat16": JointHead(release.head, {name: weight.bfloat16() for name, weight in weights.items()}),
    }
    off: dict[str, list[float]] = {name: [] for name in heads}
    for name, case in product(heads, HARD_CASES):
        loaded._head = heads[name]
        off[name].append(float(np.abs(loaded.score([record(case)])[0] - expected(case)).max()))
    assert 0 < max(off["float32"]) < 0.03  # measured over all: 0.019
    assert max(off["bfloat16"]) < 0.05  # 0.028
    assert np.mean(off["float32"]) < np.mean(off["bfloat16"])


def test_the_setting_of_the_device_goes_before_the_callers() -> None:
    assert ClefModel.load(ModelSettings(release=RELEASE, device="cpu"), "no such device")._device.type == "cpu"
    with pytest.raises(ReleaseError, match="'no such device' is not a device"):
        ClefModel.load(ModelSettings(release=RELEASE), "no such device")


class Counted(ClefModel):
    """Keeps the sizes of what it computes."""

    seen: list[tuple[int, int, bool]]

    def score(self, records: Sequence[Record], prefix: Prefix | None = None) -> list[np.ndarray]:
        self.seen.append((records[0].length, len(records), records[0].has_media))
        return super().score(records, prefix)


def test_the_warm_up_computes_several_lengths_and_counts_and_an_image() -> None:
    loaded = Counted.load(ModelSettings(release=RELEASE), "cpu")
    loaded.seen = []
    loaded.warm_up()
    text = [(length, count) for length, count, has_media in loaded.seen if not has_media]
    assert len({length for length, _ in text}) > 1 and len({count for _, count in text}) > 1
    assert [has_media for *_, has_media in loaded.seen][-1]


def test_the_warm_up_may_be_left_out() -> None:
    loaded = Counted.load(ModelSettings(release=RELEASE, warmup=False), "cpu")
    loaded.seen = []
    loaded.warm_up()
    assert loaded.seen == []


@pytest.mark.parametrize(("raised", "told"), [(torch.AcceleratorError, DeviceLost), (torch.OutOfMemoryError, None)])
def test_a_lost_device_is_told_from_other_failures(
    monkeypatch: pytest.MonkeyPatch, model: ClefModel, raised: type[Exception], told: type[Exception] | None
) -> None:
    def fail(_: object) -> None:
        raise raised("CUDA error")

    monkeypatch.setattr(model._trunk, "forward", fail)
    with pytest.raises(told or raised):
        model.score([made(3, [1])])
    with pytest.raises(told or ReleaseError):
        model.warm_up()
