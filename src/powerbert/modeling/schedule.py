"""How many word-vectors each input of a batch retains at each encoder.

Paper: PoWER-BERT Components
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
from torch import Tensor

from powerbert.retention import MAX_LENGTH, SCALE, RetentionConfiguration


class Stage(NamedTuple):
    """What one encoder does to a batch."""

    counts: Tensor  # (batch,) word-vectors retained by each input
    width: int  # the most that any input retains
    eliminates: bool  # whether any input loses a word-vector here
    padded: bool  # whether any input retains fewer than `width`
    cls: bool = False  # whether CLS alone is retained


def cls_stage(lengths: Tensor) -> Stage:
    """The last encoder for a head that reads nothing but CLS; lengths: (batch,)."""
    return Stage(torch.ones_like(lengths), width=1, eliminates=True, padded=False, cls=True)


def counts(retention: RetentionConfiguration, lengths: Tensor) -> Tensor:
    """What inputs of real lengths (batch,) retain: (encoders, batch)."""
    values = torch.tensor(retention.values, device=lengths.device)[:, None]
    if not retention.is_relative:
        return torch.minimum(values, lengths)
    # ceil(length * value / SCALE) in two steps of 100, because OpenVINO divides whole numbers in fp32:
    # wrong from 2**24 on.
    hundredths = (lengths * (values % 100) + 99) // 100
    return (lengths * (values // 100) + hundredths + 99) // 100


def exact(counts: Tensor, lengths: Tensor) -> list[Stage]:
    """Plan by reading the counts (encoders, batch): one small tensor for all encoders."""
    widest = counts.amax(dim=1)
    before = torch.cat([lengths[None], counts[:-1]])
    eliminates = (counts < before).any(dim=1)
    padded = (counts < widest[:, None]).any(dim=1)
    table = torch.stack([widest, eliminates.to(widest.dtype), padded.to(widest.dtype)], dim=1).tolist()
    return [Stage(counts[j], most, bool(loses), bool(pads)) for j, (most, loses, pads) in enumerate(table)]


def computed(retention: RetentionConfiguration, counts: Tensor, width: int) -> list[Stage]:
    """Plan with widths that an exported graph computes, opaque to the exporter: formulas cost it minutes."""
    widths = counts.amax(dim=1).tolist()
    for before, most in itertools.pairwise([width, *widths]):
        torch._check(most >= 1)  # type: ignore[no-untyped-call]
        torch._check(most <= before)  # type: ignore[no-untyped-call]
    return _stages(retention, counts, widths)


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
