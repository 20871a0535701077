"""The joint head's weights: every name and shape that `joint_head.safetensors` must hold, and nothing else.

Source: the layout of Cloudflare/clef-flash@17f0b0ad and Cloudflare/clef@2f3de3dd.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from clef.errors import ReleaseError
from clef.release import HeadConfig

Shape = tuple[int, ...]


def head_shapes(config: HeadConfig) -> dict[str, Shape]:
    """The shape of each weight by its name."""
    hidden, width, inner = config.hidden_size, config.width, config.feedforward
    shapes: dict[str, Shape] = {"type_embedding.weight": (3, width)}
    for name in (
        "memory_projection",
        "question_projection",
        "option_question_projection",
        "global_projection",
        "option_context_projection",
        "option_lexical_projection",
    ):
        shapes[f"{name}.weight"] = (width, hidden)
    shapes.update(_norm("hidden_norm", hidden))
    for name in ("option_summary_norm", "field_norm", "option_norm"):
        shapes.update(_norm(name, width))
    for index in range(config.routing_layers):
        layer = f"evidence_layers.{index}"
        for norm in ("query_norm", "memory_norm", "feedforward_norm"):
            shapes.update(_norm(f"{layer}.{norm}", width))
        shapes.update(_attention(f"{layer}.attention", width))
        shapes.update(_linear(f"{layer}.feedforward.0", inner, width))
        shapes.update(_linear(f"{layer}.feedforward.3", width, inner))
    for index in range(config.layers):
        layer = f"layers.{index}"
        for norm in ("norm1", "norm2", "norm3"):
            shapes.update(_norm(f"{layer}.{norm}", width))
        shapes.update(_attention(f"{layer}.self_attn", width))
        shapes.update(_attention(f"{layer}.multihead_attn", width))
        shapes.update(_linear(f"{layer}.linear1", inner, width))
        shapes.update(_linear(f"{layer}.linear2", width, inner))
    shapes.update(_linear("residual_scorer.0", width, 4 * width))
    shapes.update(_linear("residual_scorer.3", 1, width))
    for name in ("prior_logit_scale", "joint_logit_scale", "residual_gate"):
        shapes[name] = ()
    return shapes


def load_head_weights(path: Path, config: HeadConfig, device: torch.device) -> dict[str, Tensor]:
    """The weights in float32 on the device. Raises ReleaseError naming what is missing, extra or wrongly shaped."""
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ReleaseError(f"{path.name} cannot be read ({error}): download it again") from error
    check_head_shapes({name: tuple(weight.shape) for name, weight in weights.items()}, config, path.name)
    return {name: weight.to(device, torch.float32) for name, weight in weights.items()}


def check_head_shapes(found: Mapping[str, Shape], config: HeadConfig, file: str) -> None:
    """Raises ReleaseError naming what the file lacks, has too much or in another shape."""
    problems = misfits(found, head_shapes(config))
    if problems:
        raise ReleaseError(f"{file} does not fit joint_head_config.json: {'; '.join(problems)}")


def misfits(found: Mapping[str, Shape], wanted: Mapping[str, Shape]) -> list[str]:
    """What is wrong with the weights of a file, in words."""
    problems = [f"missing {name}" for name in wanted if name not in found]
    problems += [f"unexpected {name}" for name in found if name not in wanted]
    problems += [
        f"{name} is {list(found[name])}, not {list(shape)}"
        for name, shape in wanted.items()
        if name in found and found[name] != shape
    ]
    return problems


def _norm(name: str, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def _linear(name: str, outputs: int, inputs: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def _attention(name: str, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.in_proj_weight", (3 * width, width)
    yield f"{name}.in_proj_bias", (3 * width,)
    yield from _linear(f"{name}.out_proj", width, width)
