"""MPNet: RoBERTa with a relative position bias shared by all encoders."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from powerbert.modeling.families.base import Inputs, Projections, distances
from powerbert.modeling.families.bert import Roberta


class MPNet(Roberta):
    """MPNet: the bias of a pair of words depends on their distance in the input, retained or not."""

    inputs = ("input_ids", "position_ids", "inputs_embeds")
    attention = "attention.attn"
    linear = ("q", "k", "v")
    of_base = (*Roberta.of_base, "encoder.relative_position_bucket", "encoder.relative_attention_bias")
    of_encoder = ("attention.attn.o", "attention.dropout", "attention.LayerNorm", "intermediate", "output")

    @override
    def context(self, base: Any, inputs: Inputs, hidden: Tensor) -> Tensor:
        """The bias of each distance from -(length - 1) to length - 1: (2 * length - 1, heads)."""
        length = hidden.shape[1]
        distance = torch.arange(1 - length, length, device=hidden.device)
        # MPNet's bucket is of key minus query; `distances` are query minus key.
        buckets = base.encoder.relative_position_bucket(-distance)
        return base.encoder.relative_attention_bias(buckets)

    @override
    def bias(self, encoder: Any, heads: Projections, context: Any, asking: Tensor, positions: Tensor) -> Tensor | None:
        """Look the retained distances up in the table: (batch, heads, queries, length)."""
        longest = (context.shape[0] - 1) // 2
        return context[distances(asking, positions) + longest].permute(0, 3, 1, 2)

    @override
    def attention_output(self, encoder: Any, mixed: Tensor, residual: Tensor) -> Tensor:
        own = encoder.attention
        return own.LayerNorm(own.dropout(own.attn.o(mixed)) + residual)
