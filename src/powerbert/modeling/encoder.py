"""The one encoder loop: project, attend, extract, feed forward.

Paper: PoWER-BERT Scheme
Paper: Self-Attention Mechanism

Training, export and inference run it, over padded or packed word-vectors (`layout.py`). Work whose result
nobody reads is not done, and that is exact: rows of eliminated word-vectors are neither mixed, projected
nor normalised; the last encoder asks with CLS alone if the head reads nothing else; an encoder that
eliminates nothing runs the fused kernel and scores nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout

from powerbert.elimination.extract import extract_queries
from powerbert.elimination.selection import STRATEGIES, Scoring
from powerbert.modeling import ops
from powerbert.modeling.families.base import Family, Projections, mask_value
from powerbert.modeling.layout import Block, Words
from powerbert.modeling.retain import Extract
from powerbert.retention import RetentionConfiguration


@dataclass(frozen=True)
class Elimination:
    """What `apply` attaches to a model."""

    family: Family
    retention: RetentionConfiguration
    strategy: str = "attn-ws"
    scoring: Scoring = field(default_factory=Scoring)
    cls_only: bool = False
    """Whether the head reads nothing but CLS."""
    packed: bool | None = None
    """Whether inference packs rows: None if anything can be eliminated, True also if not, False never."""
    retain: Extract = field(default_factory=Extract)
    """Extract, or what stands in for it."""

    @property
    def static(self) -> bool:
        """Whether words are selected by position alone."""
        return STRATEGIES[self.strategy].static


def encode(
    elimination: Elimination, base: Any, context: Any, words: Words, record: Callable[[Any], None] | None
) -> Words:
    """Run all encoders over the embedded words; `record` sees the word-vectors after each of them."""
    family = elimination.family
    for j, encoder in enumerate(family.encoders(base), 1):
        words = _checkpointed(encoder, partial(_encode, elimination, j, encoder, context), words)
        if j == 1:
            words = words._replace(hidden=family.after_first(base, context, words.hidden, words.positions))
        if record is not None:
            record(words)
    return words


def _encode(elimination: Elimination, j: int, encoder: Any, context: Any, words: Words) -> Words:
    """Encoder j: project, attend, extract, feed forward."""
    family, blocks = elimination.family, words.blocks(j)
    known = [_known(elimination, block) for block in blocks]
    heads = family.project(encoder, words.hidden, words.rows(blocks, known), context, words.positions)
    mixed, retained, scores = [], [], None
    for block, own, asking in zip(blocks, words.split(heads, blocks, known), known, strict=True):
        answer, rows, scores = _attend(elimination, encoder, context, block, own, asking)
        mixed.append(answer)
        retained.append(rows)
    words = words.extract(j, blocks, retained)
    attended = family.attention_output(encoder, words.join(mixed), words.hidden)
    words = elimination.retain.late(j, words._replace(hidden=attended), scores)
    return words._replace(hidden=family.feed_forward(encoder, words.hidden))


def _known(elimination: Elimination, block: Block) -> Tensor | None:
    """The rows (inputs, width) that a block retains, if no attention is needed to know them."""
    if block.cls:
        return torch.zeros_like(block.positions[:, :1])
    strategy = STRATEGIES[elimination.strategy]
    if not strategy.static or not block.eliminates:
        return None
    return elimination.retain.early(
        strategy.score(None, block.positions, block.real, elimination.scoring), block
    )


def _attend(
    elimination: Elimination,
    encoder: Any,
    context: Any,
    block: Block,
    heads: Projections,
    asking: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Softmax, significance, the top l_j and their values.

    Returns mixed values (inputs, queries, hidden), retained rows (inputs, queries), None for all, and scores.
    """
    family, retain = elimination.family, elimination.retain
    scale, forget = family.scale(encoder, heads.query), family.dropout(encoder) if encoder.training else 0.0
    mask = _mask(family, encoder, context, block, heads, asking)
    if asking is not None or not retain.scores(block):
        return ops.fused(heads, mask, scale, forget), asking, None
    probabilities = ops.probabilities(heads, mask, scale)
    score = STRATEGIES[elimination.strategy].score
    scores = score(probabilities.detach(), block.positions, block.real, elimination.scoring)
    retained = retain.early(scores, block)
    if retained is not None:
        probabilities = extract_queries(probabilities, retained)
    # Dropout comes after the scores, so that training selects as inference does.
    return ops.mix(dropout(probabilities, forget, encoder.training), heads.value), retained, scores


def _mask(
    family: Family, encoder: Any, context: Any, block: Block, heads: Projections, asking: Tensor | None
) -> Tensor | None:
    """Bias and padding: broadcasts to (inputs, heads, queries, length); True where seen, or what is added."""
    positions = block.positions if asking is None else block.positions.gather(1, asking)
    bias = family.bias(encoder, heads, context, positions, block.positions)
    if block.real is None:
        return bias
    seen = block.real[:, None, None, :]
    return seen if bias is None else bias.masked_fill(~seen, mask_value(bias))


def _checkpointed(encoder: Any, step: Callable[[Words], Words], words: Words) -> Words:
    """Recompute the encoder in the backward pass where the caller enabled gradient checkpointing."""
    if not (encoder.training and getattr(encoder, "gradient_checkpointing", False)):
        return step(words)

    def run(hidden: Tensor) -> Words:
        return step(words._replace(hidden=hidden))

    return type(words)(*encoder._gradient_checkpointing_func(run, words.hidden))
