"""Videos against the publisher's own code: ids, spans, pixels, logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clef.batch import Record, split_records
from clef.media import Media, MediaTokens, pixel_values
from clef.model import ClefModel
from clef.settings import ModelSettings
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings
from tests.golden_cases import RELEASE
from tests.videos.clips import QUESTIONS, body, clip, video_file
from tests.videos.publisher import CASES, CPU, Publisher, Shown, assert_logits

TOKENS, MERGE = MediaTokens(image=2005, video=2006), 2


@pytest.fixture(scope="module")
def publisher() -> Publisher:
    return Publisher()


@pytest.fixture(scope="module")
def step() -> Preprocessor:
    return Preprocessor(Settings(release=RELEASE, videos=True))


@pytest.fixture(scope="module")
def model() -> ClefModel:
    return ClefModel.load(ModelSettings(release=RELEASE, warmup=False), "cpu")


def records(step: Preprocessor, request: dict[str, Any]) -> list[Record]:
    return split_records(step(json.dumps(request).encode(), None, {}))


@pytest.mark.parametrize("name", CASES)
def test_ids_and_spans(publisher: Publisher, step: Preprocessor, name: str) -> None:
    wanted = publisher.encoded(CASES[name])
    (record,) = records(step, CASES[name].body())
    assert record.input_ids.tolist() == list(wanted.input_ids)
    assert record.question_spans.tolist() == [list(question.question_span) for question in wanted.questions]
    spans = [list(span) for question in wanted.questions for span in question.option_spans]
    assert record.option_spans.tolist() == spans


@pytest.mark.parametrize("name", CASES)
def test_pixels(publisher: Publisher, step: Preprocessor, name: str) -> None:
    media = publisher.encoded(CASES[name]).media
    (record,) = records(step, CASES[name].body())
    made = Media.of([record], TOKENS, MERGE, CPU)
    assert made is not None
    wanted = [media[key] for key in ("pixel_values", "pixel_values_videos") if key in media]
    torch.testing.assert_close(pixel_values(made.patches, made.pairs), torch.cat(wanted), atol=1e-6, rtol=0)
    groups = [[1, *grid[1:]] for grid in media["video_grid_thw"].tolist() for _ in range(grid[0])]
    assert made.grid.tolist() == [*(media["image_grid_thw"].tolist() if CASES[name].images else ()), *groups]


@torch.inference_mode()
def test_logits_alone_and_in_company(publisher: Publisher, step: Preprocessor, model: ClefModel) -> None:
    every = [records(step, shown.body())[0] for shown in CASES.values()]
    for record in every:
        model.check(record)
    for record, in_company, shown in zip(every, model.score(every), CASES.values(), strict=True):
        wanted = publisher.logits(publisher.encoded(shown))
        assert_logits(model.score([record])[0], wanted)
        assert_logits(in_company, wanted)


@pytest.mark.parametrize(("frames", "rate"), [(30, 24), (90, 30), (12, 2), (7, 1)])
def test_files(
    publisher: Publisher, step: Preprocessor, model: ClefModel, frames: int, rate: int, tmp_path: Path
) -> None:
    data = video_file(clip(frames, 128, 96), "libx264", rate=rate)
    (tmp_path / "video.mp4").write_bytes(data)
    wanted = publisher.encoded_file(tmp_path / "video.mp4")
    (record,) = records(step, body(data))
    assert record.input_ids.tolist() == list(wanted.input_ids)
    made = Media.of([record], TOKENS, MERGE, CPU)
    assert made is not None
    pixels = wanted.media["pixel_values_videos"]
    torch.testing.assert_close(pixel_values(made.patches, made.pairs), pixels, atol=1e-6, rtol=0)
    assert_logits(model.score([record])[0], publisher.logits(wanted))


def test_what_is_shown_matters(step: Preprocessor, model: ClefModel) -> None:
    frames = clip(4, 128, 128)
    (forward,), (backward,) = (model.score(records(step, body(video))) for video in (frames, frames[::-1]))
    assert np.abs(forward - backward).max() > 1e-3


def test_independent_questions_all_show_the_video(step: Preprocessor, model: ClefModel) -> None:
    apart = records(step, CASES["two videos"].body(x_independent=True))
    assert len(apart) == len(QUESTIONS)
    together = model.score(apart)
    for record, logits in zip(apart, together, strict=True):
        assert record.patches is apart[0].patches
        assert_logits(model.score([record])[0], logits)


def test_a_kept_state_holds_the_videos(step: Preprocessor) -> None:
    settings = ModelSettings(release=RELEASE, state_cache_min_tokens=16)
    keeping = ClefModel.load(settings, "cpu")
    keeping.warm_up()
    apart = records(step, CASES["two images, and two videos"].body(x_independent=True))
    prefix = keeping.prefix(apart[0])
    assert prefix is not None and prefix.length == apart[0].state_end
    other = records(step, CASES["an image, and a video"].body(x_independent=True))[0]
    assert keeping.prefix(other) != prefix
    whole = [keeping.score([record])[0] for record in apart]
    for _ in range(2):
        for wanted, logits in zip(whole, keeping.score(apart, prefix), strict=True):
            assert_logits(logits, wanted)
    assert keeping.holds(prefix)


def test_the_publisher_refuses_a_single_frame_too(publisher: Publisher) -> None:
    with pytest.raises(ValueError, match="must be larger"):
        publisher.encoded(Shown([clip(1, 64, 64)], []))
