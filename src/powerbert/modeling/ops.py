"""What each encoder does to a batch, and the operations whose eager and traced forms differ.

Paper: PoWER-BERT Components

Eager code reads numbers off its tensors: a plan is exact, kernels are chosen by shape. While a graph is traced,
batch and length stay free: it may pad more, never select otherwise. No other module asks which of the two runs.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from powerbert.elimination.selection import select, select_in_graph
from powerbert.modeling.families.base import Projections, mask_value
from powerbert.retention import MAX_LENGTH, SCALE, RetentionConfiguration


class Stage(NamedTuple):
    """What one encoder does to a batch."""

    counts: Tensor  # (batch,) word-vectors retained by each input
    width: int  # the most that any input retains
    eliminates: bool  # whether any input loses a word-vector here
    padded: bool  # whether any input retains fewer than `width`
    cls: bool = False  # whether CLS alone is retained


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


def stages(retention: RetentionConfiguration, lengths: Tensor, width: int, values: Tensor | None = None) -> list[Stage]:
    """What every encoder does to inputs of real lengths (batch,) in a batch `width` wide.

    values: (encoders,) ten-thousandths that an exported graph takes as an input; `retention` then says only where
        some configuration that it may be eliminates.
    """
    retained = counts(retention, lengths) if values is None else _shares(values[: len(retention), None], lengths)
    if torch.compiler.is_exporting():
        return computed(retention, retained, width)
    return bounded(retention, retained, width) if is_traced() else exact(retained, lengths)


def counts(retention: RetentionConfiguration, lengths: Tensor) -> Tensor:
    """What inputs of real lengths (batch,) retain: (encoders, batch)."""
    values = torch.tensor(retention.values, device=lengths.device)[:, None]
    return _shares(values, lengths) if retention.is_relative else torch.minimum(values, lengths)


def _shares(values: Tensor, lengths: Tensor) -> Tensor:
    """Ten-thousandths (encoders, 1) of real lengths (batch,), rounded up: (encoders, batch)."""
    # ceil(length * value / SCALE) in two steps of 100, because OpenVINO divides whole numbers in fp32:
    # wrong from 2**24 on.
    hundredths = (lengths * (values % 100) + 99) // 100
    return (lengths * (values // 100) + hundredths + 99) // 100


def exact(counts: Tensor, lengths: Tensor) -> list[Stage]:
    """Plan by reading the counts (encoders, batch): one small tensor for all encoders."""
    widest = counts.amax(dim=1)
    eliminates = (counts < torch.cat([lengths[None], counts[:-1]])).any(dim=1)
    padded = (counts < widest[:, None]).any(dim=1)
    table = torch.stack([widest, eliminates.to(widest.dtype), padded.to(widest.dtype)], dim=1).tolist()
    return [Stage(counts[j], most, bool(loses), bool(pads)) for j, (most, loses, pads) in enumerate(table)]


def computed(retention: RetentionConfiguration, counts: Tensor, width: int) -> list[Stage]:
    """Plan with widths that an exported graph computes, opaque to the exporter: formulas cost it minutes.

    They are `rounded`, but never above that of the batch.
    """
    widths = torch.clamp(rounded(counts.amax(dim=1)), max=width).tolist()
    for before, most in itertools.pairwise([width, *widths]):
        torch._check(most >= 1)  # type: ignore[no-untyped-call]
        torch._check(most <= before)  # type: ignore[no-untyped-call]
    return _stages(retention, counts, widths)


def rounded(width: Any) -> Any:
    """A width, number or tensor, or a little more: exact up to 32, with 16 steps from there to each doubling.

    OpenVINO makes kernels for every other shape, which takes longer than to run them. A stream of single texts has
    hundreds of shapes at each encoder; rounded they are a third of that, for 3 % more word-vectors on the average.
    """
    step = 1 + (width > 32) * 1 + (width > 64) * 2 + (width > 128) * 4 + (width > 256) * 8
    return (width + (step - 1)) // step * step


def bounded(retention: RetentionConfiguration, counts: Tensor, width: int) -> list[Stage]:
    """Plan with bounds from the shape of the batch, as torch.compile knows it."""
    bounds = retention.values
    if retention.is_relative:
        bounds = tuple((width * value + (SCALE - 1)) // SCALE for value in retention.values)
    widths = [torch.sym_min(bound, width) for bound in bounds]  # type: ignore[no-untyped-call]
    return _stages(retention, counts, widths)


def _stages(retention: RetentionConfiguration, counts: Tensor, widths: list[int]) -> list[Stage]:
    """What an encoder does follows from the configuration alone, so that batch and length stay free."""
    # An absolute configuration may meet an input longer than its N: encoder 1 then eliminates.
    before = [SCALE if retention.is_relative else MAX_LENGTH, *retention.values]
    eliminates = [value < earlier for earlier, value in itertools.pairwise(before)]
    return [Stage(counts[j], widths[j], eliminates[j], padded=True) for j in range(len(retention))]


def select_rows(scores: Tensor, lengths: Tensor | None, counts: Tensor | None, width: int) -> Tensor:
    """`select` of `elimination`: by a stable sort, or in a graph by counting; a traced plan has counts."""
    if is_traced() and counts is not None:
        return select_in_graph(scores, lengths, counts, width)
    return select(scores, lengths, counts, width)


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
    query, key, _ = heads
    if is_traced():
        logits = (query * scale) @ key.transpose(2, 3)
        if mask is not None and mask.dtype == torch.bool:  # added, which engines do within another operation
            mask = torch.zeros_like(mask, dtype=logits.dtype).masked_fill(~mask, mask_value(logits))
    else:  # The scale rides along with the product: one pass less over the queries.
        keys = key.flatten(0, 1).transpose(1, 2)
        flat = torch.baddbmm(query.new_empty(()), query.flatten(0, 1), keys, beta=0, alpha=scale)
        logits = flat.view(*query.shape[:2], *flat.shape[1:])
    if mask is not None:
        logits = logits.masked_fill(~mask, mask_value(logits)) if mask.dtype == torch.bool else logits + mask
    return logits.softmax(dim=-1, dtype=torch.float32)


def fused(heads: Projections, mask: Tensor | None, scale: float, forget: float) -> Tensor:
    """Attention in one kernel, which does not export where a graph computes widths: (batch, queries, hidden).

    mask: broadcasts to (batch, heads, queries, length); True where a key is seen, or what is added.
    """
    # On a CPU no kernel fuses dropout: what stands in for it takes slower random numbers, and looks for rows of -inf.
    if torch.compiler.is_exporting() or (forget > 0 and _is_own(heads.value)):
        return mix(dropout(probabilities(heads, mask, scale), forget, forget > 0), heads.value)
    mixed = functional.scaled_dot_product_attention(*heads, attn_mask=mask, dropout_p=forget, scale=scale)
    return mixed.transpose(1, 2).flatten(2)


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """torch's dropout, with 16 random bits for each number on a CPU: torch draws 64 of them, one number at a time."""
    if not training or p == 0.0 or not _is_own(x):
        return functional.dropout(x, p, training)
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)  # of which each holds four
    kept = bits.view(torch.int16)[: x.numel()].view(x.shape) >= round(p * 2**16) - 2**15
    return x * kept.to(x.dtype).mul_(1 / (1 - p))


def _is_own(x: Tensor) -> bool:
    """Whether dropout is ours: on a CPU, and not in a graph, whose compiler has a way of its own."""
    return x.device.type == "cpu" and not is_traced()


@contextmanager
def fast_dropout(model: nn.Module) -> Iterator[None]:
    """Let the dropout layers of the model draw as `dropout` does, while it trains."""
    layers = [layer for layer in model.modules() if type(layer) is nn.Dropout]
    for layer in layers:
        layer.forward = partial(_drop, layer)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _drop(layer: nn.Dropout, x: Tensor) -> Tensor:
    return dropout(x, layer.p, layer.training)
