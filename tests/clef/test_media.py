from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from clef.batch import Record
from clef.collate import collate
from clef.errors import InvalidRecord
from clef.media import Media, MediaTokens, media_starts, pixel_values, rope_positions
from clef.model import ClefModel
from tests.clef.golden_records import IMAGE_CASES, ints, record
from tests.clef.made_records import made
from tests.golden_cases import RELEASE

TOKENS, MERGE = MediaTokens(image=2005, video=2006), 2
CPU = torch.device("cpu")


def shown(*grids: tuple[int, ...], text_between: int = 2) -> Record:
    """A record of text, images (height, width) and pairs of frames (2, height, width), and text again."""
    ids, rows = [1] * 5, [(1, *sides)[-3:] for sides in grids]
    for frames, height, width in rows:
        ids += [TOKENS[frames - 1]] * (height * width // MERGE**2) + [1] * text_between
    grid = ints(rows, -1, 3)
    patches = np.random.default_rng(0).integers(0, 256, (int(grid.prod(axis=1).sum()), 768)).astype(np.uint8)
    return replace(made(len(ids), [1]), input_ids=ints(ids, -1), patches=patches, image_grid=grid)


@pytest.mark.parametrize("name", IMAGE_CASES)
def test_positions_are_those_of_transformers(model: ClefModel, name: str) -> None:
    item = record(name)
    ids = torch.from_numpy(item.input_ids[None].astype(np.int64))
    wanted, _ = model._trunk.model.get_rope_index(
        ids, mm_token_type_ids=(ids == TOKENS.image).int(), image_grid_thw=torch.from_numpy(item.image_grid)
    )
    assert rope_positions(item, TOKENS, MERGE).tolist() == wanted[:, 0].tolist()


def test_an_image_advances_by_its_longer_side() -> None:
    positions = rope_positions(shown((2, 6)), TOKENS, MERGE)
    assert positions.tolist() == [
        [0, 1, 2, 3, 4, 5, 5, 5, 8, 9],
        [0, 1, 2, 3, 4, 5, 5, 5, 8, 9],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    ]


def test_pixel_values_are_those_of_transformers() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (256, 320, 3)).astype(np.uint8)
    wanted = Qwen2VLImageProcessorPil.from_pretrained(RELEASE)(images=[frame], return_tensors="pt")["pixel_values"]
    patches = frame.reshape(8, 2, 16, 10, 2, 16, 3).transpose(0, 3, 1, 4, 6, 2, 5).reshape(-1, 768)
    pairs = torch.arange(len(patches))[:, None].expand(-1, 2)
    torch.testing.assert_close(pixel_values(torch.from_numpy(patches), pairs), wanted, atol=1e-6, rtol=0)


def test_records_that_share_images_share_their_features() -> None:
    first, other = shown((2, 4)), shown((2, 2))
    again = replace(first, input_ids=np.append(first.input_ids, ints([1], 1)))
    media = Media.of([first, made(3, [1]), other, again], TOKENS, MERGE, CPU)
    assert media is not None
    assert media.grid.tolist() == [[1, 2, 4], [1, 2, 2]] and len(media.patches) == 12
    assert media.pairs.tolist() == [[patch, patch] for patch in range(12)]
    assert media.slots.tolist() == [5, 6, 2 * 10 + 5, 3 * 10 + 5, 3 * 10 + 6]
    assert media.features.tolist() == [0, 1, 2, 0, 1]
    assert media.positions[:, 1, :3].tolist() == [[0, 1, 2]] * 3


MIXED = shown((4, 8), (2, 4, 6), (2, 4, 6), (2, 2, 2))
"""An image, a video of two pairs of frames, and one of a pair."""


def as_transformers(item: Record) -> dict[str, torch.Tensor]:
    """The inputs of its multimodal model; the videos of `MIXED`."""
    ids = torch.from_numpy(item.input_ids[None].astype(np.int64))
    pixels = np.repeat(item.patches[:32].reshape(-1, 3, 1, 256), 2, axis=2).reshape(-1, 1536)
    pairs = [
        item.patches[start : start + 2 * size].reshape(2, size, 3, 256)
        for start, size in ((32, 24), (80, 24), (128, 4))
    ]
    frames = np.concatenate([pair.transpose(1, 2, 0, 3).reshape(-1, 1536) for pair in pairs])
    return {
        "input_ids": ids,
        "mm_token_type_ids": (ids == TOKENS.image).int() + 2 * (ids == TOKENS.video).int(),
        "pixel_values": torch.from_numpy(pixels) / 127.5 - 1,
        "image_grid_thw": torch.tensor([[1, 4, 8]]),
        "pixel_values_videos": torch.from_numpy(frames) / 127.5 - 1,
        "video_grid_thw": torch.tensor([[2, 4, 6], [1, 2, 2]]),
    }


def test_positions_of_videos_are_those_of_transformers(model: ClefModel) -> None:
    inputs = {name: tensor for name, tensor in as_transformers(MIXED).items() if "pixel" not in name}
    wanted, _ = model._trunk.model.get_rope_index(**inputs)
    assert rope_positions(MIXED, TOKENS, MERGE).tolist() == wanted[:, 0].tolist()


@torch.inference_mode()
def test_images_and_videos_are_seen_as_transformers_sees_them(model: ClefModel) -> None:
    wanted = model._trunk.model(**as_transformers(MIXED), use_cache=False).last_hidden_state
    hidden = model._trunk.forward(collate([MIXED, shown((2, 4, 4)), MIXED], CPU))
    for row in (0, 2):
        torch.testing.assert_close(hidden[row], wanted[0], atol=1e-4, rtol=0)
    frames_swapped = MIXED.patches.copy()
    frames_swapped[32:80] = np.roll(frames_swapped[32:80], 24, axis=0)
    swapped = model._trunk.forward(collate([replace(MIXED, patches=frames_swapped)], CPU))
    assert (swapped[0] - wanted[0]).abs().max() > 1e-3


def test_media_stand_in_the_order_of_the_grid() -> None:
    last_first = replace(MIXED, image_grid=MIXED.image_grid[[1, 2, 3, 0]])
    with pytest.raises(InvalidRecord, match="order"):
        media_starts(last_first, TOKENS, MERGE)


def test_a_text_may_spell_the_video_token_beside_images() -> None:
    images = shown((2, 4), (4, 4))
    spelt = replace(images, input_ids=np.append(images.input_ids, ints([TOKENS.video], 1)))
    assert media_starts(spelt, TOKENS, MERGE).tolist() == [5, 9]
    assert not TOKENS.shown_in(made(3, [1]), 0, 3) and TOKENS.shown_in(images, 5, 6)
    assert not TOKENS.shown_in(images, 0, 5)


def test_text_alone_has_no_media() -> None:
    assert Media.of([made(3, [1])], TOKENS, MERGE, CPU) is None


def test_where_images_begin() -> None:
    assert media_starts(shown((2, 4), (4, 4)), TOKENS, MERGE).tolist() == [5, 9]
    assert media_starts(shown((2, 4), (4, 4), text_between=0), TOKENS, MERGE).tolist() == [5, 7]


def test_a_text_may_spell_the_image_token() -> None:
    spelt = replace(made(6, [1]), input_ids=np.full(6, TOKENS.image, np.int32))
    assert media_starts(spelt, TOKENS, MERGE).tolist() == []


def test_image_tokens_must_be_the_images_own() -> None:
    good = shown((2, 4))
    one_more = replace(good, input_ids=np.append(good.input_ids, ints([TOKENS.image], 1)))
    torn = replace(good, input_ids=np.where(np.arange(good.length) == 6, 1, good.input_ids))
    torn = replace(torn, input_ids=np.append(torn.input_ids, ints([TOKENS.image], 1)))
    for bad in (one_more, torn):
        with pytest.raises(InvalidRecord):
            media_starts(bad, TOKENS, MERGE)
