"""How many word-vectors each input of a batch retains at each encoder.

Paper: PoWER-BERT Components
"""

from __future__ import annotations

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


def schedule(retention: RetentionConfiguration, lengths: Tensor, width: int) -> list[Stage]:
    """Plan every encoder of one forward pass, for real lengths (batch,) in a batch `width` wide.

    In eager mode the plan is exact and costs one read of a small tensor. While a graph is traced
    (torch.compile, torch.export) it follows from shapes and the configuration alone, so that batch
    and length stay dynamic; it may then pad more, never select otherwise.
    """
    values = torch.tensor(retention.values, device=lengths.device)[:, None]
    if retention.is_relative:
        counts = (lengths * values + (SCALE - 1)) // SCALE
    else:
        counts = torch.minimum(values, lengths)
    if torch.compiler.is_compiling():
        return _from_shapes(retention, counts, width)
    widest = counts.amax(dim=1)
    before = torch.cat([lengths[None], counts[:-1]])
    eliminates = (counts < before).any(dim=1)
    padded = (counts < widest[:, None]).any(dim=1)
    table = torch.stack([widest, eliminates.to(widest.dtype), padded.to(widest.dtype)], dim=1).tolist()
    return [Stage(counts[j], most, bool(loses), bool(pads)) for j, (most, loses, pads) in enumerate(table)]


def _from_shapes(retention: RetentionConfiguration, counts: Tensor, width: int) -> list[Stage]:
    stages = []
    # An absolute configuration may meet an input longer than its N: encoder 1 then eliminates.
    before = SCALE if retention.is_relative else MAX_LENGTH
    for j, value in enumerate(retention.values):
        bound = (width * value + (SCALE - 1)) // SCALE if retention.is_relative else value
        most = torch.sym_min(bound, width)  # type: ignore[no-untyped-call]
        stages.append(Stage(counts[j], most, eliminates=value < before, padded=True))
        before = value
    return stages
