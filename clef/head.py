"""The joint schema head: hidden states of every token in, one logit an option out, for a whole micro-batch at once.

Written from the description of the head of Cloudflare/clef-flash@17f0b0ad and checked against its outputs. What
differs: no loop over records, questions or options, and cross attention may run unprojected (`clef.attention`).

Axes: B records, L tokens, T tokens of all records, P tokens of a shared prefix, Q questions, O options of all records,
H hidden, W width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from clef.attention import CrossAttention, Linear, Memory, SelfAttention
from clef.head_weights import load_head_weights
from clef.layout import Layout
from clef.norm import HiddenNorm, Norm, inverted_deviation
from clef.ragged import Ragged
from clef.release import HEAD_WEIGHTS, HeadConfig, Release

LARGEST_SCALE = math.log(100.0)


@dataclass(frozen=True, eq=False, slots=True)
class Feedforward:
    inner: Linear
    outer: Linear

    def __call__(self, rows: Tensor) -> Tensor:
        return self.outer(F.gelu(self.inner(rows)))


@dataclass(frozen=True, eq=False, slots=True)
class EvidenceLayer:
    """Options read the memory."""

    query_norm: Norm
    attention: CrossAttention
    feedforward_norm: Norm
    feedforward: Feedforward

    def __call__(self, options: Tensor, groups: Ragged, memory: Memory) -> Tensor:
        options = options + self.attention(self.query_norm(options), groups, memory)
        return options + self.feedforward(self.feedforward_norm(options))


@dataclass(frozen=True, eq=False, slots=True)
class FieldLayer:
    """The fields of a record attend to each other, then to the memory."""

    self_norm: Norm
    self_attention: SelfAttention
    cross_norm: Norm
    cross_attention: CrossAttention
    feedforward_norm: Norm
    feedforward: Feedforward

    def __call__(self, fields: Tensor, groups: Ragged, memory: Memory) -> Tensor:
        fields = fields + self.self_attention(self.self_norm(fields), groups)
        fields = fields + self.cross_attention(self.cross_norm(fields), groups, memory)
        return fields + self.feedforward(self.feedforward_norm(fields))


class JointHead:
    """The head of one release, in float32."""

    def __init__(self, config: HeadConfig, weights: dict[str, Tensor]) -> None:
        """`weights` as `load_head_weights` gives them."""

        def linear(name: str) -> Linear:
            return Linear(weights[f"{name}.weight"], weights.get(f"{name}.bias"))

        def norm(name: str) -> Norm:
            return Norm(weights[f"{name}.weight"], weights[f"{name}.bias"])

        def projections(name: str) -> Linear:
            return Linear(weights[f"{name}.in_proj_weight"], weights[f"{name}.in_proj_bias"])

        def evidence_layer(name: str) -> EvidenceLayer:
            memory_norm = norm(f"{name}.memory_norm")
            return EvidenceLayer(
                norm(f"{name}.query_norm"),
                CrossAttention.of(
                    projections(f"{name}.attention"),
                    linear(f"{name}.attention.out_proj"),
                    config.heads,
                    (memory_norm.weight, memory_norm.bias),
                ),
                norm(f"{name}.feedforward_norm"),
                Feedforward(linear(f"{name}.feedforward.0"), linear(f"{name}.feedforward.3")),
            )

        def field_layer(name: str) -> FieldLayer:
            self_attention, cross_attention = f"{name}.self_attn", f"{name}.multihead_attn"
            return FieldLayer(
                norm(f"{name}.norm1"),
                SelfAttention(config.heads, projections(self_attention), linear(f"{self_attention}.out_proj")),
                norm(f"{name}.norm2"),
                CrossAttention.of(projections(cross_attention), linear(f"{cross_attention}.out_proj"), config.heads),
                norm(f"{name}.norm3"),
                Feedforward(linear(f"{name}.linear1"), linear(f"{name}.linear2")),
            )

        self.width = config.width
        self.hidden = HiddenNorm(norm("hidden_norm"), linear("memory_projection").weight)
        self.question = linear("question_projection")
        self.global_ = linear("global_projection")
        self.option_question = linear("option_question_projection")
        self.option_context = linear("option_context_projection")
        self.option_lexical = linear("option_lexical_projection")
        self.types = weights["type_embedding.weight"]
        self.evidence_layers = [evidence_layer(f"evidence_layers.{index}") for index in range(config.routing_layers)]
        self.summary_norm = norm("option_summary_norm")
        self.field_layers = [field_layer(f"layers.{index}") for index in range(config.layers)]
        self.field_norm = norm("field_norm")
        self.option_norm = norm("option_norm")
        self.scorer = Feedforward(linear("residual_scorer.0"), linear("residual_scorer.3"))
        self.prior_scale = weights["prior_logit_scale"].clamp(max=LARGEST_SCALE).exp()
        self.joint_scale = weights["joint_logit_scale"].clamp(max=LARGEST_SCALE).exp()
        self.gate = weights["residual_gate"].sigmoid()

    @classmethod
    def load(cls, release: Release, device: torch.device) -> JointHead:
        return cls(release.head, load_head_weights(release.path / HEAD_WEIGHTS, release.head, device))

    def remember(self, hidden: Tensor) -> Tensor:
        """The memory [n, W] of one record's hidden states [1, n, H]: all that is ever read of most of its tokens."""
        return self.hidden.project(hidden.to(self.types.dtype))[0].squeeze(0)

    def __call__(self, hidden: Tensor, layout: Layout, vocabulary: Tensor, remembered: Tensor | None = None) -> Tensor:
        """Logits [O], float32.

        hidden: [B, L, H] of the trunk, right-padded, or packed [1, T, H]; vocabulary: [V, H], the rows of the trunk's
        lm_head; remembered: [P, W], the memory of tokens that stand before those of each record.
        """
        slots = None if layout.packed else layout.tokens.slots
        memory, means = self.hidden(hidden.to(self.types.dtype), slots, layout.spans)  # [Q + O + B, H]
        memory = layout.tokens.pad(memory[0]) if layout.packed else memory  # [B, L, W]
        questions, contexts, last = torch.split(
            means, [layout.questions.rows, layout.options.rows, layout.tokens.groups]
        )  # [Q, H], [O, H], [B, H]
        ids, offsets = layout.lexical
        lexical = F.embedding_bag(ids, vocabulary, offsets, mode="mean", include_last_offset=True).to(means.dtype)

        options = self.option_context(contexts) + self.option_lexical(lexical)  # [O, W]
        options = options + self.option_question(questions)[layout.option_question]
        padding = layout.tokens.bias(memory.dtype, memory.device)  # [B, L]
        if remembered is not None:
            memory = torch.cat([remembered.expand(len(memory), -1, -1), memory], dim=1)  # [B, P + L, W]
            padding = None if padding is None else F.pad(padding, (len(remembered), 0))
        normalised = Memory(memory, padding, inverted_deviation(memory))
        for evidence in self.evidence_layers:
            options = evidence(options, layout.options, normalised)

        base = self.question(questions)  # [Q, W]
        fields = base + self.summary_norm(self._summaries(options, base, layout))
        fields = fields + self.global_(last)[layout.question_record] + self.types[layout.question_types]
        for layer in self.field_layers:
            fields = layer(fields, layout.questions, Memory(memory, padding))

        anchors = F.normalize(questions + last[layout.question_record], dim=-1)  # [Q, H]
        prior = (F.normalize(lexical, dim=-1) * anchors[layout.option_question]).sum(-1)  # [O]
        joint = self._joint(self.field_norm(fields)[layout.option_question], self.option_norm(options))
        return (self.prior_scale * prior + self.gate * joint).float()

    def _summaries(self, options: Tensor, base: Tensor, layout: Layout) -> Tensor:
        """The options of each question, weighed by how well they match it: [Q, W]"""
        matches = (options * base[layout.option_question]).sum(-1) / math.sqrt(self.width)  # [O]
        weights = torch.softmax(layout.choices.pad(matches.float(), fill=-torch.inf), -1)
        weights = layout.choices.unpad(weights).to(options.dtype)  # [O]
        first = torch.arange(layout.options.rows, device=options.device)
        return F.embedding_bag(
            first, options, layout.option_offsets, mode="sum", per_sample_weights=weights, include_last_offset=True
        )

    def _joint(self, fields: Tensor, options: Tensor) -> Tensor:
        """How well each option [O, W] fits its field [O, W]: [O]"""
        features = torch.cat([fields, options, fields * options, (fields - options).abs()], dim=-1)
        cosine = F.cosine_similarity(fields, options, dim=-1)
        return self.joint_scale * cosine + self.scorer(features).squeeze(-1)
