from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from clef.batch import Record
from clef.errors import InvalidRecord
from clef.media import Media, image_starts, pixel_values, rope_positions
from clef.model import ClefModel
from tests.clef.golden_records import IMAGE_CASES, ints, record
from tests.clef.made_records import made
from tests.golden_cases import RELEASE

IMAGE_TOKEN, MERGE = 2005, 2
CPU = torch.device("cpu")


def shown(*grids: tuple[int, int], text_between: int = 2) -> Record:
    """A record of text, images and text again."""
    ids = [1] * 5
    for height, width in grids:
        ids += [IMAGE_TOKEN] * (height * width // MERGE**2) + [1] * text_between
    grid = ints([(1, *sides) for sides in grids], -1, 3)
    patches = np.zeros((int(grid.prod(axis=1).sum()), 768), np.uint8)
    return replace(made(len(ids), [1]), input_ids=ints(ids, -1), patches=patches, image_grid=grid)


@pytest.mark.parametrize("name", IMAGE_CASES)
def test_positions_are_those_of_transformers(model: ClefModel, name: str) -> None:
    item = record(name)
    ids = torch.from_numpy(item.input_ids[None].astype(np.int64))
    wanted, _ = model._trunk.model.get_rope_index(
        ids, mm_token_type_ids=(ids == IMAGE_TOKEN).int(), image_grid_thw=torch.from_numpy(item.image_grid)
    )
    assert rope_positions(item, IMAGE_TOKEN, MERGE).tolist() == wanted[:, 0].tolist()


def test_an_image_advances_by_its_longer_side() -> None:
    positions = rope_positions(shown((2, 6)), IMAGE_TOKEN, MERGE)
    assert positions.tolist() == [
        [0, 1, 2, 3, 4, 5, 5, 5, 8, 9],
        [0, 1, 2, 3, 4, 5, 5, 5, 8, 9],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    ]


def test_pixel_values_are_those_of_transformers() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (256, 320, 3)).astype(np.uint8)
    wanted = Qwen2VLImageProcessorPil.from_pretrained(RELEASE)(images=[frame], return_tensors="pt")["pixel_values"]
    patches = frame.reshape(8, 2, 16, 10, 2, 16, 3).transpose(0, 3, 1, 4, 6, 2, 5).reshape(-1, 768)
    torch.testing.assert_close(pixel_values(torch.from_numpy(patches)), wanted, atol=1e-6, rtol=0)


def test_records_that_share_images_share_their_features() -> None:
    first, other = shown((2, 4)), shown((2, 2))
    again = replace(first, input_ids=np.append(first.input_ids, ints([1], 1)))
    media = Media.of([first, made(3, [1]), other, again], 12, IMAGE_TOKEN, MERGE, CPU)
    assert media is not None
    assert media.grid.tolist() == [[1, 2, 4], [1, 2, 2]] and len(media.patches) == 12
    assert media.slots.tolist() == [5, 6, 2 * 12 + 5, 3 * 12 + 5, 3 * 12 + 6]
    assert media.features.tolist() == [0, 1, 2, 0, 1]
    assert media.positions[:, 1, :3].tolist() == [[0, 1, 2]] * 3


def test_text_alone_has_no_media() -> None:
    assert Media.of([made(3, [1])], 3, IMAGE_TOKEN, MERGE, CPU) is None


def test_where_images_begin() -> None:
    assert image_starts(shown((2, 4), (4, 4)), IMAGE_TOKEN, MERGE).tolist() == [5, 9]
    assert image_starts(shown((2, 4), (4, 4), text_between=0), IMAGE_TOKEN, MERGE).tolist() == [5, 7]


def test_a_text_may_spell_the_image_token() -> None:
    spelt = replace(made(6, [1]), input_ids=np.full(6, IMAGE_TOKEN, np.int32))
    assert image_starts(spelt, IMAGE_TOKEN, MERGE).tolist() == []


def test_image_tokens_must_be_the_images_own() -> None:
    good = shown((2, 4))
    one_more = replace(good, input_ids=np.append(good.input_ids, ints([IMAGE_TOKEN], 1)))
    torn = replace(good, input_ids=np.where(np.arange(good.length) == 6, 1, good.input_ids))
    torn = replace(torn, input_ids=np.append(torn.input_ids, ints([IMAGE_TOKEN], 1)))
    for bad in (one_more, torn):
        with pytest.raises(InvalidRecord):
            image_starts(bad, IMAGE_TOKEN, MERGE)
