"""The publisher's code beside ours: they agree, and where a release's code says something else, that is seen."""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from launch.errors import LaunchError
from launch.release_code import MODULE, load_model
from launch.triton import REPOSITORY_ROOT
from launch.verify import TOLERANCE, read_bodies, verify
from launch.verify_requests import bodies
from perf.publisher import publisher
from tests.golden_cases import CASES, RELEASE, tolerance

SOURCE = Path(publisher().__file__ or "")
FEW = {name: body for name, body in bodies().items() if name in ("three types", "special tokens in text", "image")}


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """The golden release with the publisher's file in it, as a real one has it."""
    shutil.copytree(RELEASE, tmp_path / "release")
    shutil.copy(SOURCE, tmp_path / "release" / MODULE)
    return tmp_path / "release"


def said(release: Path, some: dict[str, dict[str, Any]], dtype: str = "float32") -> list[str]:
    lines: list[str] = []
    verify(release, some, "cpu", dtype, lines.append)
    return lines


def test_the_release_and_ours_agree_on_every_request(release: Path) -> None:
    lines = said(release, bodies())
    assert "as published" in lines[0]
    rows = {line[:26].strip(): line[26:].split() for line in lines[3:-1]}
    assert rows.keys() == bodies().keys()
    assert all(float(logits) < 1e-5 and int(tokens) > 100 for tokens, logits, _ in rows.values())
    assert lines[-1].strip() == f"all {len(rows)} requests agree: within 0.0001 in logits"


def test_in_bfloat16_they_agree_within_what_is_stated(release: Path) -> None:
    assert f"within {TOLERANCE['bfloat16']:g} in probabilities" in said(release, FEW, "bfloat16")[-1]


@pytest.mark.parametrize(
    ("ours", "other", "shown"),
    [
        ('"END FIELD\\n"', '"END OF FIELD\\n"', "token ids differ, from token"),
        ("prior_scale * torch.matmul", "1.01 * prior_scale * torch.matmul", "DIFFERS"),
    ],
)
def test_code_that_says_something_else_is_found_out(release: Path, ours: str, other: str, shown: str) -> None:
    text = (release / MODULE).read_text("utf-8")
    assert text.count(ours) == 1
    (release / MODULE).write_text(text.replace(ours, other))
    lines: list[str] = []
    with pytest.raises(LaunchError, match=r"3 of 3 requests differ by more than 0\.0001 in logits: three types"):
        verify(release, FEW, "cpu", "float32", lines.append)
    assert "NOT the file that Cloudflare published" in lines[0]
    assert all(shown in line for line in lines[3:])


def test_weights_that_the_two_sides_read_unlike_are_found_out(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared is what each side loads for itself."""
    monkeypatch.setattr("launch.verify.load_model", lambda module, _, *more: load_model(module, damaged, *more))
    damaged = shutil.copytree(release, release.with_name("damaged"))
    data = bytearray((damaged / "joint_head.safetensors").read_bytes())
    data[-64_000:] = bytes(64_000)
    (damaged / "joint_head.safetensors").write_bytes(data)
    with pytest.raises(LaunchError, match="differ by more than"):
        said(release, FEW)


def test_a_release_without_its_code() -> None:
    with pytest.raises(LaunchError, match=f"has no {MODULE}"):
        said(RELEASE, FEW)


def test_nothing_of_the_release_runs_unless_that_is_agreed_to(release: Path, tmp_path: Path) -> None:
    (release / MODULE).write_text(
        f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch(); raise SystemExit(9)"
    )
    command = [sys.executable, "-m", "launch", "verify", "--release", str(release)]
    refused = subprocess.run(command, cwd=REPOSITORY_ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "--run-release-code" in refused.stderr
    assert not (tmp_path / "ran").exists()
    agreed = subprocess.run([*command, "--run-release-code"], cwd=REPOSITORY_ROOT, capture_output=True, check=False)
    assert agreed.returncode == 9
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "one JSON object a line"), ("[1]", "one JSON object a line"), ("{", "one JSON request a line"),
     ('{"videos": [["a", "b"]]}', "videos are not compared")],
)  # fmt: skip
def test_requests_that_cannot_be_compared(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "requests.jsonl").write_text(text)
    with pytest.raises(LaunchError, match=message):
        read_bodies(tmp_path / "requests.jsonl")


def test_ones_own_requests(release: Path, tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text("\n\n".join(json.dumps(body) for body in FEW.values()))
    assert [line[:6] for line in said(release, read_bodies(file))[3:-1]] == ["line 1", "line 2", "line 3"]


@torch.inference_mode()
def test_the_stand_in_for_its_processor_gives_the_publishers_own_answers() -> None:
    """What the publisher computed with its own loader, torchvision and all."""
    model, processor = load_model(publisher(), RELEASE, "cpu", "float32")
    for name, case in CASES.items():
        files = [base64.b64decode(url.partition(",")[2]) for url in case["request"].get("images") or ()]
        pictures = [Image.open(io.BytesIO(file)).convert("RGB") for file in files]
        request = case["request"] | {"images": pictures}
        record = publisher().encode_record(processor.tokenizer, request, processor=processor)
        assert list(record.input_ids) == case["reference"]["input_ids"], name
        logits = model(publisher().collate_records([record], 0, torch.device("cpu")))[0]
        wanted = np.concatenate(case["reference"]["logits"])
        np.testing.assert_allclose(torch.cat(logits), wanted, atol=tolerance(name), rtol=0, err_msg=name)
