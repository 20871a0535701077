"""What runs where: the stubs' packages and their memory."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.golden_cases import CASES

MODELS = ("clef_preprocess", "clef_model", "clef_postprocess")
MIB = 1024 * 1024


def mapped_files(process) -> set[str]:
    return {region.path for region in process.memory_maps()}


@pytest.mark.parametrize("model", MODELS)
def test_a_stub_takes_its_packages_from_this_environment(stack, model):
    numpy_files = [path for path in mapped_files(stack.stub(model)) if re.search(r"/numpy/.*\.so$", path)]
    assert numpy_files
    assert all(Path(path).is_relative_to(sys.prefix) for path in numpy_files)


@pytest.mark.parametrize("model", ["clef_preprocess", "clef_postprocess"])
def test_the_light_steps_stay_light(stack, http, model):
    assert http.post("/v1/systemone", json=CASES["two-images"]["request"]).status_code == 200
    stub = stack.stub(model)
    assert stub.memory_info().rss < 200 * MIB
    assert not any("libtorch" in path for path in mapped_files(stub))


def test_the_whole_stack_fits_in_three_gigabytes(stack, http):
    assert http.post("/v1/systemone", json=CASES["long-state"]["request"]).status_code == 200
    processes = [stack.triton_process, stack.frontend_process, *stack.triton_process.children(recursive=True)]
    assert sum(process.memory_info().rss for process in processes) < 3 * 1024 * MIB
