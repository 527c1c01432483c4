"""How much there is to compute: word-vectors and matrix products of a model on its real inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from powerbert.modeling.apply import retention_of
from powerbert.modeling.packing import unpack


def word_vectors(model: Any, lengths: Sequence[int]) -> int:
    """Real word-vectors over all encoders; PAD never counts."""
    retention = retention_of(model)
    if retention is None:
        return int(model.config.num_hidden_layers) * sum(lengths)
    totals = {length: retention.total(length) for length in set(lengths)}
    return sum(totals[length] for length in lengths)


@torch.inference_mode()
def flops(model: Any, rows: int, length: int) -> int:
    """Floating-point operations of the matrix products on a full batch (rows, length), as torch runs it.

    Measured, not derived: the model runs once on its plain layers, with attention in parts that can be
    counted (the fused kernel and packed layers do the same products).
    """
    words = torch.ones(rows, length, dtype=torch.long)
    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH):
        unpack(model)(input_ids=words, attention_mask=torch.ones_like(words))
    return int(counter.get_total_flops())
