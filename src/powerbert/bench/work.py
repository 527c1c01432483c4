"""How much there is to compute: the matrix products of a model."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from powerbert.modeling.packing import unpack


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
