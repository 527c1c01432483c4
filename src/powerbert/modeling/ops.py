"""The operations whose eager and traced forms differ; no other module asks which of the two runs.

Eager code reads numbers off its tensors: a plan is exact, kernels are chosen by shape. While a graph is
traced, batch and length stay free: it may pad more, never select otherwise.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from powerbert.elimination import selection
from powerbert.modeling import schedule
from powerbert.modeling.families.base import Projections, mask_value
from powerbert.retention import RetentionConfiguration


def is_traced() -> bool:
    """Whether a graph is being made, by torch.compile or torch.export."""
    return torch.compiler.is_compiling()


def extent(lengths: Tensor, length: int, trim: bool) -> tuple[int, bool]:
    """The width of a batch of real lengths (batch,), cut to its longest input, and whether any row is PAD."""
    if is_traced():
        return length, True
    longest, shortest = torch.stack([lengths.max(), lengths.min()]).tolist()
    width = longest if trim else length
    return width, shortest < width


def plan(retention: RetentionConfiguration, lengths: Tensor, width: int) -> list[schedule.Stage]:
    """What every encoder does to inputs of real lengths (batch,) in a batch `width` wide."""
    counts = schedule.counts(retention, lengths)
    if torch.compiler.is_exporting():
        return schedule.computed(retention, counts, width)
    if is_traced():
        return schedule.bounded(retention, counts, width)
    return schedule.exact(counts, lengths)


def select(scores: Tensor, lengths: Tensor | None, counts: Tensor | None, width: int) -> Tensor:
    """`selection.select`: by a stable sort, or in a graph by counting."""
    if is_traced():
        assert counts is not None  # a traced plan is padded
        return selection.select_in_graph(scores, lengths, counts, width)
    return selection.select(scores, lengths, counts, width)


def products(heads: Projections, scale: float) -> Tensor:
    """Scaled dot products of queries and keys: (batch, heads, queries, length)."""
    if is_traced():
        return (heads.query * scale) @ heads.key.transpose(2, 3)
    query, key = heads.query.flatten(0, 1), heads.key.flatten(0, 1)
    # The scale rides along with the product: one pass less over the queries.
    flat = torch.baddbmm(query.new_empty(()), query, key.transpose(1, 2), beta=0, alpha=scale)
    return flat.view(*heads.query.shape[:2], *flat.shape[1:])


def mix(probabilities: Tensor, value: Tensor) -> Tensor:
    """Weigh the values: (batch, heads, queries, length), (.., length, head) -> (batch, queries, hidden)."""
    probabilities = probabilities.to(value.dtype)
    if is_traced():
        mixed = probabilities @ value
    else:
        mixed = (probabilities.flatten(0, 1) @ value.flatten(0, 1)).view(*probabilities.shape[:3], -1)
    return mixed.transpose(1, 2).flatten(2)


def probabilities(heads: Projections, mask: Tensor | None, scale: float) -> Tensor:
    """A_h for every head, softmax in fp32: (batch, heads, queries, length); mask as in `fused`."""
    logits = products(heads, scale)
    if mask is not None and mask.dtype == torch.bool:
        logits = logits.masked_fill(~mask, mask_value(logits))
    elif mask is not None:
        logits = logits + mask
    return logits.softmax(dim=-1, dtype=torch.float32)


def fused(heads: Projections, mask: Tensor | None, scale: float, dropout: float) -> Tensor:
    """Attention in one kernel, which does not export where a graph computes widths: (batch, queries, hidden).

    mask: broadcasts to (batch, heads, queries, length); True where a key is seen, or what is added.
    """
    if torch.compiler.is_exporting():
        return mix(probabilities(heads, mask, scale), heads.value)
    mixed = scaled_dot_product_attention(*heads, attn_mask=mask, dropout_p=dropout, scale=scale)
    return mixed.transpose(1, 2).flatten(2)
