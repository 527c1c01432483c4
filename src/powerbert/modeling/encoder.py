"""The one encoder loop: attend -> score -> select -> extract -> feed forward.

Paper: PoWER-BERT Scheme
Paper: Self-Attention Mechanism

Rows arrive right-padded, CLS first. Work whose result nobody reads is not done, and each of these
savings is exact: rows of eliminated word-vectors are neither mixed, projected nor normalised; the
last encoder asks with CLS alone when the head reads nothing else; an encoder that eliminates nothing
runs the fused attention kernel and scores nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import dropout, scaled_dot_product_attention

from powerbert.elimination.extract import extract, extract_queries, restore
from powerbert.elimination.selection import STRATEGIES, Scoring, select, sorted_positions
from powerbert.modeling.families.base import Family, Projections, mask_value
from powerbert.modeling.schedule import Stage
from powerbert.retention import RetentionConfiguration

SoftExtract = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(encoder j from 1, rows (batch, length, hidden), ranks (batch, length), lengths (batch,)) -> rows."""


@dataclass(frozen=True)
class Savings:
    """Exact savings; switching one off changes the cost, not the answer."""

    select_first: bool = True
    """Select right after the softmax; off is the paper's order, behind the self-attention module."""
    cls_query: bool = True
    """The last encoder computes CLS alone when the head reads nothing else."""
    fused_kernel: bool = True
    """An encoder that eliminates nothing runs the fused attention kernel and scores nothing."""
    unpadded: bool = True
    """Inference computes no PAD, and probabilities of a few inputs at a time."""


@dataclass(frozen=True)
class Elimination:
    """What `apply` attaches to a model."""

    family: Family
    retention: RetentionConfiguration
    strategy: str = "attn-ws"
    scoring: Scoring = field(default_factory=Scoring)
    savings: Savings = field(default_factory=Savings)
    cls_only: bool = False
    """Whether the head reads nothing but CLS."""
    own_forward: bool = True
    """Whether the model's own forward pass serves where nothing can be eliminated, bit for bit."""
    soft_extract: SoftExtract | None = None
    """While the configuration is searched: scale every word-vector instead of eliminating any."""


class Words(NamedTuple):
    """The word-vectors between two encoders."""

    hidden: Tensor  # (batch, width, hidden)
    positions: Tensor  # (batch, width), of each row in the whole input
    lengths: Tensor  # (batch,), real rows; the others are PAD
    padded: bool  # whether any row is PAD

    @property
    def real(self) -> Tensor | None:
        """(batch, width) bool, False at PAD; None if nothing is padded."""
        if not self.padded:
            return None
        return torch.arange(self.positions.shape[1], device=self.lengths.device) < self.lengths[:, None]


class Encoded(NamedTuple):
    """What the loop returns."""

    hidden: Tensor  # (batch, length, hidden), or (batch, 1, hidden) if only CLS was asked for
    states: list[Tensor]  # behind the embeddings and each encoder, whole length, if asked for
    retained: list[tuple[Tensor, Tensor]]  # positions and lengths behind each encoder, if asked for


def encode(
    elimination: Elimination,
    base: Any,
    context: Any,
    words: Words,
    stages: list[Stage],
    *,
    record_states: bool = False,
    record_retained: bool = False,
) -> Encoded:
    """Run all encoders over the embedded words.

    Where the head reads every position, an eliminated word-vector keeps the last state it had, the
    output of the last encoder that retained it, and is put back at its own position.
    """
    family = elimination.family
    cls_only = elimination.cls_only and not record_states
    encoders = family.encoders(base)
    whole = words.hidden
    states = [whole] if record_states else []
    retained = []
    for j, (encoder, stage) in enumerate(zip(encoders, stages, strict=True), 1):
        if stage.eliminates and not cls_only:
            whole = _put_back(whole, words)  # with the last state of the word-vectors eliminated here
        if j == len(encoders) and cls_only and elimination.savings.cls_query:
            step = partial(_answer, family, encoder, context, words)
        else:
            step = partial(_encode, elimination, j, encoder, context, words, stage)
        hidden, index = _checkpointed(encoder, step)(words.hidden)
        words = words._replace(hidden=hidden)
        if index is not None:
            words = Words(hidden, words.positions.gather(1, index), stage.counts, stage.padded)
        if j == 1:
            words = words._replace(hidden=family.after_first(base, context, hidden, words.positions))
        if record_states:
            states.append(_put_back(whole, words))
        if record_retained:
            retained.append((words.positions, words.lengths))
    return Encoded(words.hidden[:, :1] if cls_only else _put_back(whole, words), states, retained)


Step = tuple[Tensor, Tensor | None]
"""The output of an encoder and the rows (batch, new width) that it retained, None if all."""


def _encode(
    elimination: Elimination, j: int, encoder: Any, context: Any, words: Words, stage: Stage, hidden: Tensor
) -> Step:
    """Encoder j: attend, score, select, extract, feed forward."""
    family, savings = elimination.family, elimination.savings
    searching = elimination.soft_extract is not None
    if not stage.eliminates and savings.fused_kernel and not searching:
        return _attend(family, encoder, context, words, hidden), None
    if STRATEGIES[elimination.strategy].static and savings.select_first and not searching:
        scores = STRATEGIES[elimination.strategy].score(
            None, words.positions, words.real, elimination.scoring
        )
        index = select(scores, words.lengths, stage.counts, stage.width)
        return _attend(family, encoder, context, words, hidden, index), index

    heads = family.project(encoder, hidden, None, context, words.positions)
    probabilities = attention_probabilities(family, encoder, context, words, heads)
    scores = STRATEGIES[elimination.strategy].score(
        probabilities.detach(), words.positions, words.real, elimination.scoring
    )
    # Scores come before dropout, so that training selects as inference does.
    forget = partial(dropout, p=family.dropout(encoder), training=encoder.training)
    if elimination.soft_extract is not None:
        attended = family.attention_output(encoder, mix(forget(probabilities), heads.value), hidden)
        attended = elimination.soft_extract(
            j, attended, sorted_positions(scores, words.lengths), words.lengths
        )
        return family.feed_forward(encoder, attended), None

    index = select(scores, words.lengths, stage.counts, stage.width)
    if savings.select_first:
        mixed = mix(forget(extract_queries(probabilities, index)), heads.value)
        attended = family.attention_output(encoder, mixed, extract(hidden, index))
    else:
        attended = family.attention_output(encoder, mix(forget(probabilities), heads.value), hidden)
        attended = extract(attended, index)
    return family.feed_forward(encoder, attended), index


def _answer(family: Family, encoder: Any, context: Any, words: Words, hidden: Tensor) -> Step:
    """Run the last encoder for CLS alone: one query row, nothing to score."""
    cls = torch.zeros_like(words.positions[:, :1])
    return _attend(family, encoder, context, words, hidden, cls), cls


def _attend(
    family: Family, encoder: Any, context: Any, words: Words, hidden: Tensor, asking: Tensor | None = None
) -> Tensor:
    """Run an encoder with the fused kernel for the rows that ask: (batch, queries, hidden)."""
    heads = family.project(encoder, hidden, asking, context, words.positions)
    residual = hidden if asking is None else extract(hidden, asking)
    mask = _mask(family, encoder, context, words, heads, asking)
    scale = family.scale(encoder, heads.query)
    if torch.compiler.is_exporting():
        mixed = mix(_masked(_products(heads, scale), mask).softmax(dim=-1), heads.value)
    else:
        forget = family.dropout(encoder) if encoder.training else 0.0
        mixed = scaled_dot_product_attention(*heads, attn_mask=mask, dropout_p=forget, scale=scale)
        mixed = mixed.transpose(1, 2).flatten(2)
    return family.feed_forward(encoder, family.attention_output(encoder, mixed, residual))


def _masked(products: Tensor, mask: Tensor | None) -> Tensor:
    """Mask dot products as the fused kernel does, which does not export where the graph computes widths."""
    if mask is None or mask.dtype != torch.bool:
        return products if mask is None else products + mask
    return products.masked_fill(~mask, mask_value(products))


def _mask(
    family: Family, encoder: Any, context: Any, words: Words, heads: Projections, asking: Tensor | None
) -> Tensor | None:
    """Bias and padding for the fused kernel: broadcasts to (batch, heads, queries, width), or None."""
    positions = words.positions if asking is None else words.positions.gather(1, asking)
    bias = family.bias(encoder, heads, context, positions, words.positions)
    if words.real is None:
        return bias
    visible = words.real[:, None, None, :]
    return visible if bias is None else bias.masked_fill(~visible, mask_value(bias))


def attention_probabilities(
    family: Family, encoder: Any, context: Any, words: Words, heads: Projections
) -> Tensor:
    """A_h for every head, softmax in fp32: (batch, heads, width, width)."""
    logits = _products(heads, family.scale(encoder, heads.query))
    bias = family.bias(encoder, heads, context, words.positions, words.positions)
    if bias is not None:
        logits = logits + bias
    if words.real is not None:
        logits = logits.masked_fill(~words.real[:, None, None, :], mask_value(logits))
    return logits.softmax(dim=-1, dtype=torch.float32)


def _products(heads: Projections, scale: float) -> Tensor:
    """Scaled dot products of queries and keys: (batch, heads, width, width)."""
    if torch.compiler.is_compiling():
        return (heads.query * scale) @ heads.key.transpose(2, 3)
    query, key = heads.query.flatten(0, 1), heads.key.flatten(0, 1)
    # The scale rides along with the product: one pass less over the queries.
    products = torch.baddbmm(query.new_empty(()), query, key.transpose(1, 2), beta=0, alpha=scale)
    return products.view(*heads.query.shape[:2], *products.shape[1:])


def mix(probabilities: Tensor, value: Tensor) -> Tensor:
    """Weigh the values: (batch, heads, queries, width), (.., width, head) -> (batch, queries, hidden)."""
    probabilities = probabilities.to(value.dtype)
    if torch.compiler.is_compiling():
        mixed = probabilities @ value
    else:
        mixed = (probabilities.flatten(0, 1) @ value.flatten(0, 1)).view(*probabilities.shape[:3], -1)
    return mixed.transpose(1, 2).flatten(2)


def _put_back(whole: Tensor, words: Words) -> Tensor:
    """Write the retained word-vectors into the states of the whole input: (batch, length, hidden)."""
    if words.real is None and words.positions.shape[1] == whole.shape[1]:
        return words.hidden
    real = words.real
    if real is None:
        real = torch.ones_like(words.positions, dtype=torch.bool)
    return restore(whole, words.hidden, words.positions, real)


def _checkpointed(encoder: Any, step: Callable[[Tensor], Step]) -> Callable[[Tensor], Step]:
    """Recompute the encoder in the backward pass where the caller enabled gradient checkpointing."""
    if encoder.training and getattr(encoder, "gradient_checkpointing", False):
        return partial(encoder._gradient_checkpointing_func, step)
    return step
