"""ALBERT: one shared encoder module, used L times.

Paper: Accelerating ALBERT
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from powerbert.modeling.families.base import Family, Inputs, Projections, project_with, under


class Albert(Family):
    """ALBERT: encoder j is a use of a shared module, so nothing of encoder j may live in it."""

    of_base = ("embeddings", "encoder.albert_layer_groups", "encoder.embedding_hidden_mapping_in", "pooler")
    of_encoder = (
        *under("attention", "query", "key", "value", "attention_head_size", "attention_dropout.p"),
        *under("attention", "dense", "output_dropout", "LayerNorm"),
        *("ff_chunk", "full_layer_layer_norm"),
    )

    def encoders(self, base: Any) -> list[Any]:
        """Each use of a layer of each group is one encoder."""
        config, groups = base.config, base.encoder.albert_layer_groups
        uses = config.num_hidden_layers / config.num_hidden_groups
        return [
            layer for i in range(config.num_hidden_layers) for layer in groups[int(i / uses)].albert_layers
        ]

    def embed(self, base: Any, inputs: Inputs) -> Tensor:
        """Embeddings are narrow; one matrix maps them to the hidden size."""
        given = inputs.given("input_ids", "token_type_ids", "position_ids", "inputs_embeds")
        embedded: Tensor = base.encoder.embedding_hidden_mapping_in(base.embeddings(**given))
        return embedded

    def project(
        self, encoder: Any, hidden: Tensor, asking: Tensor | None, context: Any, positions: Tensor
    ) -> Projections:
        """Three linear layers."""
        own = encoder.attention
        return project_with(own.query, own.key, own.value, hidden, asking, own.attention_head_size)

    def dropout(self, encoder: Any) -> float:
        """Read it off the attention module."""
        return float(encoder.attention.attention_dropout.p)

    def attention_output(self, encoder: Any, mixed: Tensor, residual: Tensor) -> Tensor:
        """Dense, dropout, add, norm."""
        own = encoder.attention
        attended: Tensor = own.LayerNorm(residual + own.output_dropout(own.dense(mixed)))
        return attended

    def feed_forward(self, encoder: Any, attended: Tensor) -> Tensor:
        """Feed forward, add, norm."""
        out: Tensor = encoder.full_layer_layer_norm(encoder.ff_chunk(attended) + attended)
        return out

    def finish(self, base: Any, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """ALBERT's pooler is a bare linear layer."""
        if base.pooler is None:
            return hidden, None
        return hidden, base.pooler_activation(base.pooler(hidden[:, 0]))
