"""MPNet: RoBERTa with a relative position bias shared by all encoders."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from powerbert.modeling.families.base import Inputs, Projections, distances, project_with, under
from powerbert.modeling.families.bert import Roberta


class MPNet(Roberta):
    """MPNet: the bias of a pair of words depends on their distance in the input, retained or not."""

    of_base = (*Roberta.of_base, *under("encoder", "relative_position_bucket", "relative_attention_bias"))
    of_encoder = (
        *under("attention.attn", "q", "k", "v", "attention_head_size", "dropout.p", "o"),
        *("attention.dropout", "attention.LayerNorm", "intermediate", "output"),
    )

    def embed(self, base: Any, inputs: Inputs) -> Tensor:
        """Word and position embeddings."""
        embedded: Tensor = base.embeddings(**inputs.given("input_ids", "position_ids", "inputs_embeds"))
        return embedded

    def context(self, base: Any, inputs: Inputs, hidden: Tensor) -> Tensor:
        """The bias of each distance from -(length - 1) to length - 1: (2 * length - 1, heads)."""
        length = hidden.shape[1]
        distance = torch.arange(1 - length, length, device=hidden.device)
        # MPNet's bucket is of key minus query; `distances` are query minus key.
        buckets = base.encoder.relative_position_bucket(-distance)
        table: Tensor = base.encoder.relative_attention_bias(buckets)
        return table

    def project(
        self, encoder: Any, hidden: Tensor, asking: Tensor | None, context: Any, positions: Tensor
    ) -> Projections:
        """Three linear layers."""
        own = encoder.attention.attn
        return project_with(own.q, own.k, own.v, hidden, asking, own.attention_head_size)

    def bias(
        self, encoder: Any, heads: Projections, context: Any, asking: Tensor, positions: Tensor
    ) -> Tensor | None:
        """Look the retained distances up in the table: (batch, heads, queries, length)."""
        longest = (context.shape[0] - 1) // 2
        looked_up: Tensor = context[distances(asking, positions) + longest]
        return looked_up.permute(0, 3, 1, 2)

    def dropout(self, encoder: Any) -> float:
        """Read it off the attention module."""
        return float(encoder.attention.attn.dropout.p)

    def attention_output(self, encoder: Any, mixed: Tensor, residual: Tensor) -> Tensor:
        """Dense, dropout, add, norm."""
        own = encoder.attention
        attended: Tensor = own.LayerNorm(own.dropout(own.attn.o(mixed)) + residual)
        return attended
