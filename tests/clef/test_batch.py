from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from clef.batch import RECORD_TENSORS, Record, split_records
from clef.errors import InvalidRecord
from tests.clef.golden_records import ints, record
from tests.clef.made_records import made


def joined(records: list[Record]) -> dict[str, np.ndarray]:
    """The wire tensors of one request with these records."""
    return {
        "INPUT_IDS": np.concatenate([item.input_ids for item in records]),
        "RECORDS": ints([[item.length, len(item.question_spans), item.state_end] for item in records], -1, 3),
        "QUESTIONS": np.concatenate(
            [np.c_[item.question_spans, item.question_types, item.option_counts] for item in records]
        ),
        "OPTION_SPANS": np.concatenate([item.option_spans for item in records]),
        "PATCHES": records[0].patches,
        "IMAGE_GRID": records[0].image_grid,
    }


def test_a_request_is_cut_into_its_records() -> None:
    records = [made(30, [2, 5], 1), made(7, [1], 2), made(12, [3, 1, 2], 3)]
    again = split_records(joined(records))
    assert set(joined(records)) == set(RECORD_TENSORS)
    for one, other in zip(again, records, strict=True):
        for name in ("input_ids", "question_spans", "question_types", "option_counts", "option_spans"):
            assert getattr(one, name).tolist() == getattr(other, name).tolist()
        assert one.state_end == other.state_end


def test_records_of_a_request_share_its_images() -> None:
    shown = record("image-native-grid")
    first, second = split_records(joined([shown, shown]))
    assert first.patches is second.patches and first.has_media


@pytest.mark.parametrize(
    ("column", "values"),
    [(0, [30, 8]), (0, [37, 0]), (0, [38, -1]), (1, [2, 2]), (1, [3, 0]), (1, [4, -1])],
)
def test_records_that_do_not_add_up_are_refused(column: int, values: list[int]) -> None:
    tensors = joined([made(30, [2, 5], 1), made(7, [1], 2)])
    tensors["RECORDS"][:, column] = values
    with pytest.raises(InvalidRecord):
        split_records(tensors)


@pytest.mark.parametrize("counts", [[2, 5, 2], [2, 6, 0], [2, 7, -1]])
def test_options_that_do_not_add_up_are_refused(counts: list[int]) -> None:
    tensors = joined([made(30, [2, 5], 1), made(7, [1], 2)])
    tensors["QUESTIONS"][:, 3] = counts
    with pytest.raises(InvalidRecord):
        split_records(tensors)


@pytest.mark.parametrize("name", ["INPUT_IDS", "RECORDS", "QUESTIONS", "OPTION_SPANS"])
def test_rows_that_are_missing_are_refused(name: str) -> None:
    tensors = joined([made(30, [2, 5], 1), made(7, [1], 2)])
    for rows in (tensors[name][:-1], tensors[name][:0]):
        with pytest.raises(InvalidRecord):
            split_records(tensors | {name: rows})


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("input_ids", ints([], 0)),
        ("input_ids", ints([[1, 2]], 1, 2)),
        ("question_spans", ints([[0, 0]], 1, 2)),
        ("question_spans", ints([[3, 2]], 1, 2)),
        ("question_spans", ints([[-1, 2]], 1, 2)),
        ("question_spans", ints([[0, 31]], 1, 2)),
        ("question_spans", ints([0, 1], 2)),
        ("question_spans", ints([], 0, 2)),
        ("question_types", ints([3], 1)),
        ("question_types", ints([-1], 1)),
        ("question_types", ints([0, 0], 2)),
        ("option_counts", ints([3], 1)),
        ("option_counts", ints([2, 0], 2)),
        ("option_spans", ints([[0, 1], [30, 31]], 2, 2)),
        ("option_spans", ints([0, 1], 2)),
        ("state_end", 31),
        ("state_end", -1),
        ("patches", np.zeros((4, 768), np.uint8)),
        ("patches", np.zeros((0, 1536), np.uint8)),
        ("patches", np.zeros((0, 768), np.float32)),
        ("image_grid", ints([[1, 2, 2]], 1, 3)),
        ("image_grid", ints([], 0, 2)),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(field: str, values: Any) -> None:
    good = made(30, [2])
    good.check()
    with pytest.raises(InvalidRecord):
        replace(good, **{field: values}).check()


@pytest.mark.parametrize("grid", [[3, 2, 2], [1, 4, 1], [1, 1, 4], [0, 2, 2], [-1, -2, 2]])
def test_media_are_one_frame_or_two_of_whole_merge_blocks(grid: list[int]) -> None:
    patches = np.zeros((abs(int(np.prod(grid))), 768), np.uint8)
    with pytest.raises(InvalidRecord):
        replace(made(30, [2]), patches=patches, image_grid=ints([grid], 1, 3)).check()
    patches = np.zeros((8, 768), np.uint8)
    replace(made(30, [2]), patches=patches, image_grid=ints([[2, 2, 2]], 1, 3)).check()


def test_a_video_is_a_row_of_the_request_and_a_row_of_the_record_for_each_two_of_its_frames() -> None:
    media = ints([[1, 2, 4], [6, 2, 2], [2, 4, 2]], 3, 3)
    tensors = joined([made(30, [2]), made(7, [1])]) | {"PATCHES": np.zeros((48, 768), np.uint8), "IMAGE_GRID": media}
    first, second = split_records(tensors)
    assert first.image_grid.tolist() == [[1, 2, 4], *[[2, 2, 2]] * 3, [2, 4, 2]]
    assert second.image_grid is first.image_grid


@pytest.mark.parametrize(
    "media", [[[3, 2, 2]], [[2**31 - 2, 2, 2]], [[4, 2, 2], [0, 2, 2]], [[-2, -2, 2]], [[4, 2, 2]] * 2, [[4, 2, 2, 1]]]
)
def test_a_grid_that_contradicts_its_patches_is_refused(media: list[list[int]]) -> None:
    tensors = joined([made(30, [2])])
    tensors |= {"PATCHES": np.zeros((16, 768), np.uint8), "IMAGE_GRID": np.array(media, np.int32)}
    with pytest.raises(InvalidRecord):
        split_records(tensors)[0].check()


def test_sides_whose_product_wraps_around_do_not_fill_the_patches() -> None:
    grid = np.array([[1, 2**30, 2**30]] * 64 + [[1, 2, 2]], np.int32)  # 2^66 and 4: in 64 bits 4
    with pytest.raises(InvalidRecord, match="patches do not fill"):
        replace(made(30, [2]), patches=np.zeros((4, 768), np.uint8), image_grid=grid).check()


def test_rows_with_more_frames_than_patches_together_are_refused_before_they_are_made() -> None:
    media = np.array([[512, 2, 2]] * 100_000, np.int32)  # 307 MB of pictures out of 1.2 MB
    tensors = joined([made(30, [2])]) | {"PATCHES": np.zeros((2048, 768), np.uint8), "IMAGE_GRID": media}
    with pytest.raises(InvalidRecord, match="patches do not fill"):
        split_records(tensors)


def test_errors_say_nothing_of_the_content() -> None:
    with pytest.raises(InvalidRecord) as error:
        replace(made(30, [2]), question_spans=ints([[12345, 2]], 1, 2)).check()
    assert "12345" not in str(error.value)
