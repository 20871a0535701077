from __future__ import annotations

import pytest

from clef import warmup


def test_cuda_computes_the_powers_of_two_up_to_the_budget() -> None:
    shapes = warmup.shapes("cuda", batch_tokens=1000, batch_records=5)
    assert {length for length, _ in shapes} == {64, 128, 256, 512}
    assert [count for length, count in shapes if length == 64] == [1, 2, 4]
    assert [count for length, count in shapes if length == 512] == [1]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("budget", [1, 64, 300, 16384])
def test_no_shape_is_over_the_budget_but_one_that_must_be(device: str, budget: int) -> None:
    shapes = warmup.shapes(device, budget, 32)
    assert shapes == [(64, 1)] or all(length * count <= budget for length, count in shapes)
    assert len(set(shapes)) == len(shapes) > 0


def test_its_records_are_sound() -> None:
    for batch in warmup.batches("cpu", 16384, 32, image_token=9, merge=2):
        for record in batch:
            record.check()
