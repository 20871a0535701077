from __future__ import annotations

import pytest

from clef import warmup


def test_cuda_computes_the_powers_of_two_up_to_the_budget_and_the_longest_alone() -> None:
    shapes = warmup.shapes("cuda", batch_tokens=1000, batch_records=5, max_length=3000)
    assert [count for length, count in shapes if length == 64] == [1, 2, 4]
    assert [count for length, count in shapes if length == 256] == [1, 2]
    assert [length for length, count in shapes if count == 1] == [64, 128, 256, 512, 1024, 2048, 3000]


@pytest.mark.parametrize(("max_length", "lengths"), [(1, [1]), (64, [64]), (65, [64, 65]), (128, [64, 128])])
def test_no_record_is_longer_than_is_allowed(max_length: int, lengths: list[int]) -> None:
    assert [length for length, _ in warmup.shapes("cuda", 4096, 1, max_length)] == lengths


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("budget", [1, 64, 300, 16384])
def test_no_shape_is_over_the_budget_but_one_that_must_be(device: str, budget: int) -> None:
    shapes = warmup.shapes(device, budget, 32, max_length=2000)
    assert all(length * count <= budget or count == 1 for length, count in shapes)
    assert len(set(shapes)) == len(shapes) > 0


def test_its_records_are_sound() -> None:
    for batch in warmup.batches("cpu", 16384, 32, 2000, image_token=9, merge=2):
        for record in batch:
            record.check()
