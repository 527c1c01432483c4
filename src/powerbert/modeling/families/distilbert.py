"""DistilBERT: BERT without types and pooler."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from powerbert.modeling.families.base import Family, Inputs, Projections, project_with, under


class DistilBert(Family):
    """DistilBERT: its encoders live in `base.transformer`."""

    of_base = ("embeddings", "transformer.layer")
    of_encoder = (
        *under("attention", "q_lin", "k_lin", "v_lin", "attention_head_size", "dropout.p", "out_lin"),
        *("sa_layer_norm", "ffn", "output_layer_norm"),
    )

    def encoders(self, base: Any) -> list[Any]:
        """The blocks of the transformer."""
        return list(base.transformer.layer)

    def embed(self, base: Any, inputs: Inputs) -> Tensor:
        """Word and position embeddings."""
        embedded: Tensor = base.embeddings(inputs.input_ids, inputs.inputs_embeds, inputs.position_ids)
        return embedded

    def project(
        self, encoder: Any, hidden: Tensor, asking: Tensor | None, context: Any, positions: Tensor
    ) -> Projections:
        """Three linear layers."""
        own = encoder.attention
        return project_with(own.q_lin, own.k_lin, own.v_lin, hidden, asking, own.attention_head_size)

    def dropout(self, encoder: Any) -> float:
        """Read it off the attention module."""
        return float(encoder.attention.dropout.p)

    def attention_output(self, encoder: Any, mixed: Tensor, residual: Tensor) -> Tensor:
        """Dense, add, norm."""
        attended: Tensor = encoder.sa_layer_norm(encoder.attention.out_lin(mixed) + residual)
        return attended

    def feed_forward(self, encoder: Any, attended: Tensor) -> Tensor:
        """Feed forward, add, norm."""
        out: Tensor = encoder.output_layer_norm(encoder.ffn(attended) + attended)
        return out
