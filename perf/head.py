"""The joint head beside the publisher's loop, on the same weights and hidden states.

32 records of about 250 tokens with three questions and eight options each, on the golden head and on one of the real
width with random weights. Logits are compared before anything is timed. By the clock, on one thread and on one for each
core. The projection of every token's hidden state to the head's memory, which no way around the loop saves, is timed
alone too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from time import perf_counter
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import torch
import torch.nn.functional as F
from torch import Tensor

from clef.batch import PATCH_BYTES, Record
from clef.head import JointHead
from clef.head_weights import head_shapes, load_head_weights
from clef.layout import Layout
from clef.release import HEAD_WEIGHTS, HeadConfig, open_release
from perf.encoder import GOLDEN
from perf.publisher import publisher
from perf.side_by_side import milliseconds, table

TITLE = "Joint head"
QUICK_ROUNDS = 1
CPU = torch.device("cpu")
REAL_WIDTH = HeadConfig(hidden_size=4096, width=1024, routing_layers=2, layers=4, heads=16, feedforward=4096)
RECORDS = 32
LENGTHS = (220, 281)
OPTIONS = (2, 3, 3)
INSTRUCTION_TOKENS, OPTION_TOKENS, TOKENS_BETWEEN = 8, 12, 4
VOCABULARY = 2_048
AGREEMENT = 1e-4
AT_LEAST = 5
ROUNDS = {"golden": 25, "real width": 3}


def realistic(length: int, chance: np.random.Generator) -> Record:
    """A record whose questions stand behind its state, as the encoder writes them."""
    place = length - sum(INSTRUCTION_TOKENS + TOKENS_BETWEEN + n * (OPTION_TOKENS + TOKENS_BETWEEN) for n in OPTIONS)
    start, question_spans, option_spans = place, [], []
    for count in OPTIONS:
        question_spans.append((place, place + INSTRUCTION_TOKENS))
        place += INSTRUCTION_TOKENS + TOKENS_BETWEEN
        for _ in range(count):
            option_spans.append((place, place + OPTION_TOKENS))
            place += OPTION_TOKENS + TOKENS_BETWEEN
    return Record(
        input_ids=chance.integers(0, VOCABULARY, length).astype(np.int32),
        question_spans=np.array(question_spans, np.int32),
        question_types=np.array([0, 1, 2], np.int32),
        option_counts=np.array(OPTIONS, np.int32),
        option_spans=np.array(option_spans, np.int32),
        state_end=start,
        patches=np.empty((0, PATCH_BYTES), np.uint8),
        image_grid=np.empty((0, 3), np.int32),
    )


def published(record: Record) -> Any:
    """The record as the publisher's head takes it."""
    questions, first = [], 0
    for span, kind, count in zip(record.question_spans, record.question_types, record.option_counts, strict=True):
        spans = tuple((int(start), int(end)) for start, end in record.option_spans[first : first + count])
        questions.append(publisher().EncodedQuestion("", int(kind), (int(span[0]), int(span[1])), spans, ()))
        first += count
    return publisher().EncodedRecord(tuple(record.input_ids.tolist()), tuple(questions), "")


def random_weights(config: HeadConfig) -> dict[str, Tensor]:
    """Weights of a size that keeps activations near one."""
    chance = torch.Generator().manual_seed(0)
    weights = {name: torch.randn(shape, generator=chance) for name, shape in head_shapes(config).items()}
    return {name: value * (value.shape[-1] ** -0.5 if value.ndim > 1 else 1) for name, value in weights.items()}


def ways(config: HeadConfig, weights: dict[str, Tensor]) -> dict[str, Callable[[], Tensor]]:
    """Both heads on one micro-batch, from the trunk's hidden states to logits. Ours builds its indices anew."""
    chance = np.random.default_rng(0)
    records = [realistic(int(length), chance) for length in chance.integers(*LENGTHS, RECORDS)]
    hidden = torch.randn(RECORDS, max(record.length for record in records), config.hidden_size)
    vocabulary = torch.randn(VOCABULARY, config.hidden_size)
    module = publisher().JointSchemaHead(**asdict(config)).eval()
    module.load_state_dict(weights, strict=True)
    head = JointHead(config, weights)
    batch = publisher().collate_records([published(record) for record in records], 0, CPU)

    def theirs() -> Tensor:
        logits = module(hidden, batch["input_ids"], batch["attention_mask"], batch["records"], vocabulary)
        return torch.cat([torch.cat(record) for record in logits])

    def ours() -> Tensor:
        return head(hidden, Layout.of(records, CPU), vocabulary)

    if (ours() - theirs()).abs().max() > AGREEMENT:
        raise SystemExit("The heads disagree: nothing was timed.")
    tokens = hidden.flatten(0, 1)[: sum(record.length for record in records)]
    projection = weights["memory_projection.weight"]
    return {"publisher": theirs, "ours": ours, "projection": lambda: F.linear(tokens, projection)}


@torch.inference_mode()
def measure(quick: bool) -> list[dict[str, Any]]:
    """One row a head and a number of threads: milliseconds of both for the whole micro-batch."""
    golden = open_release(GOLDEN / "release")
    heads = {
        "golden": (golden.head, load_head_weights(golden.path / HEAD_WEIGHTS, golden.head, CPU)),
        "real width": (REAL_WIDTH, random_weights(REAL_WIDTH)),
    }
    rows = []
    for name, (config, weights) in heads.items():
        both, rounds = ways(config, weights), QUICK_ROUNDS if quick else ROUNDS[name]
        for threads in dict.fromkeys((1, psutil.cpu_count() or 1)):
            torch.set_num_threads(threads)
            times = milliseconds(both, rounds, perf_counter)
            rows.append({"head": name, "width": config.width, "threads": threads, **times})
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    """The measurement as a Markdown table."""
    cells = [
        (
            row["head"],
            row["width"],
            row["threads"],
            row["publisher"],
            row["ours"],
            f"{row['projection'] / row['ours']:.0%}",
            row["publisher"] / row["ours"],
        )
        for row in rows
    ]
    columns = ("head", "width", "threads", "publisher, ms", "ours, ms", "of ours, the projection", "times faster")
    return (
        f"At least {AT_LEAST} times is asked. {RECORDS} records of {LENGTHS[0]} to {LENGTHS[1] - 1} tokens, "
        f"{len(OPTIONS)} questions and {sum(OPTIONS)} options each:\n\n"
        f"{table(columns, cells)}"
    )
