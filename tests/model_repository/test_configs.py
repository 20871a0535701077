"""The hand-written `config.pbtxt` files hold together, and what is written elsewhere of their tensors agrees with them.

`tritonclient`'s own protobuf reads them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig, ModelInstanceGroup

from clef.batch import RECORD_TENSORS
from frontend.kserve import cancel_request

ROOT = Path(__file__).parents[2]
REPOSITORY = ROOT / "model_repository"
ENSEMBLE, CACHED = ENSEMBLES = ("clef", "clef_cached")
STEPS = ("clef_preprocess", "clef_model", "clef_postprocess")


def read(name: str) -> ModelConfig:
    config: ModelConfig = text_format.Parse((REPOSITORY / name / "config.pbtxt").read_text(), ModelConfig())
    return config


CONFIGS = {name: read(name) for name in (*ENSEMBLES, *STEPS)}


def tensors(fields) -> dict[str, tuple[int, tuple[int, ...]]]:
    return {field.name: (field.data_type, tuple(field.dims)) for field in fields}


def test_the_repository_holds_these_models_and_no_other():
    folders = {path.name for path in REPOSITORY.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(CONFIGS)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_name_is_the_folder(name):
    assert CONFIGS[name].name == name


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_a_python_model_with_its_code_beside_it(name):
    assert CONFIGS[name].backend == "python"
    assert (REPOSITORY / name / "1" / "model.py").is_file()


@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_an_ensemble_runs_the_steps_in_order(ensemble):
    assert tuple(step.model_name for step in CONFIGS[ensemble].ensemble_scheduling.step) == STEPS


@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_every_edge_of_an_ensemble_agrees_in_type_and_shape(ensemble):
    # The other ensemble's, and made for it alone.
    left_out = set() if ensemble == CACHED else {"CACHE_KEY", "COMPUTED_FOR", "IMAGE_COUNT"}
    produced = tensors(CONFIGS[ensemble].input)
    for step in CONFIGS[ensemble].ensemble_scheduling.step:
        config = CONFIGS[step.model_name]
        inputs, outputs = tensors(config.input), tensors(config.output)
        assert set(step.input_map) == set(inputs) - left_out, f"{step.model_name}: every input is fed"
        for key, value in step.input_map.items():
            assert inputs[key] == produced[value], f"{step.model_name}.{key}"
        assert set(step.output_map) == set(outputs) - left_out, f"{step.model_name}: every output is mapped"
        produced |= {value: outputs[key] for key, value in step.output_map.items()}
    for name, tensor in tensors(CONFIGS[ensemble].output).items():
        assert produced[name] == tensor, name


@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_one_tensor_has_one_name_from_end_to_end(ensemble):
    for step in CONFIGS[ensemble].ensemble_scheduling.step:
        for mapping in (step.input_map, step.output_map):
            assert all(key == value for key, value in mapping.items())


def test_one_ensemble_keeps_responses_and_has_no_output_that_may_be_empty():
    assert [name for name, config in CONFIGS.items() if config.response_cache.enable] == [CACHED]
    plain, cached = (set(tensors(CONFIGS[name].output)) for name in ENSEMBLES)
    assert plain - cached == {"IMAGE_GRID"} and cached - plain == {"COMPUTED_FOR", "IMAGE_COUNT"}


def kserve(fields) -> dict[str, tuple[str, tuple[int, ...]]]:
    """As the protocol names types, without the batch axis."""
    return {
        name: (DataType.Name(kind).removeprefix("TYPE_").replace("STRING", "BYTES"), dims)
        for name, (kind, dims) in tensors(fields).items()
    }


def documented() -> dict[str, tuple[str, tuple[int, ...]]]:
    """As the README's table has it: a letter stands for any length, one type for all names of its row."""
    found = {}
    table = (ROOT / "README.md").read_text("utf-8").partition("| tensor |")[2].partition("\n\n")[0]
    for names, types in re.findall(r"^\| (`.+?) \| (.+?) \|", table, re.MULTILINE):
        shapes = [
            (kind, tuple(int(size) if size.isdigit() else -1 for size in sizes.split(", ")))
            for kind, sizes in re.findall(r"(\w+) \[(.+?)\]", types)
        ]
        tensors_of_row = re.findall(r"`(\w+)`", names)
        found |= dict(zip(tensors_of_row, shapes * (len(tensors_of_row) // len(shapes)), strict=True))
    return found


def test_the_readme_has_every_tensor_with_its_type_and_shape():
    fields = [field for config in CONFIGS.values() for field in (*config.input, *config.output)]
    assert documented() == kserve(fields)


def test_the_model_step_reads_what_it_is_given_and_can_be_asked_without_any_of_it():
    inputs = kserve(CONFIGS["clef_model"].input)
    assert tuple(inputs) == RECORD_TENSORS
    empty = {tensor.name: (tensor.datatype, tuple(tensor.shape)) for tensor in cancel_request("token").inputs}
    assert empty == {name: (kind, (1, 0, *dims[1:])) for name, (kind, dims) in inputs.items()}


def test_an_optional_input_is_optional_on_both_sides():
    def optional(name):
        return {field.name for field in CONFIGS[name].input if field.optional}

    assert optional(ENSEMBLE) == optional(CACHED) == {"IMAGES"}
    assert optional("clef_preprocess") == {"IMAGES", "CACHE_KEY"}


def test_only_the_model_step_batches_and_without_a_queue_policy():
    for name, config in CONFIGS.items():
        assert config.max_batch_size == (16 if name == "clef_model" else 1)
        assert config.HasField("dynamic_batching") == (name == "clef_model")
    batching = CONFIGS["clef_model"].dynamic_batching
    assert not batching.ListFields(), "a delay or a queue policy stalls this server's batcher"
    assert all(field.allow_ragged_batch for field in CONFIGS["clef_model"].input)


def test_the_model_goes_where_the_device_is_and_the_rest_to_the_cpu():
    kinds = {name: [group.kind for group in CONFIGS[name].instance_group] for name in STEPS}
    assert kinds == {
        "clef_preprocess": [ModelInstanceGroup.KIND_CPU],
        "clef_model": [ModelInstanceGroup.KIND_AUTO],
        "clef_postprocess": [ModelInstanceGroup.KIND_CPU],
    }


@pytest.mark.parametrize("name", STEPS)
def test_an_adapter_stays_thin(name):
    code = (REPOSITORY / name / "1" / "model.py").read_text().splitlines()
    assert len(code) < 80
