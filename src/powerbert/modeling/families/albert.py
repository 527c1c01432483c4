"""ALBERT: one shared encoder module, used L times.

Paper: Accelerating ALBERT
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from typing_extensions import override

from powerbert.modeling.families.base import Family, Inputs


class Albert(Family):
    """ALBERT: encoder j is a use of a shared module, so nothing of encoder j may live in it."""

    forget = "attention_dropout.p"
    of_base = ("embeddings", "encoder.albert_layer_groups", "encoder.embedding_hidden_mapping_in", "pooler")
    of_encoder = (
        *("attention.dense", "attention.output_dropout", "attention.LayerNorm"),
        *("ff_chunk", "full_layer_layer_norm"),
    )

    @override
    def encoders(self, base: Any) -> list[Any]:
        config, groups = base.config, base.encoder.albert_layer_groups
        uses = config.num_hidden_layers / config.num_hidden_groups
        return [layer for i in range(config.num_hidden_layers) for layer in groups[int(i / uses)].albert_layers]

    @override
    def embed(self, base: Any, inputs: Inputs) -> Tensor:
        # Embeddings are narrow; one matrix maps them to the hidden size.
        return base.encoder.embedding_hidden_mapping_in(super().embed(base, inputs))

    @override
    def attention_output(self, encoder: Any, mixed: Tensor, residual: Tensor) -> Tensor:
        own = encoder.attention
        return own.LayerNorm(residual + own.output_dropout(own.dense(mixed)))

    @override
    def feed_forward(self, encoder: Any, attended: Tensor) -> Tensor:
        return encoder.full_layer_layer_norm(encoder.ff_chunk(attended) + attended)

    @override
    def finish(self, base: Any, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        # The pooler is a bare linear layer.
        if base.pooler is None:
            return hidden, None
        return hidden, base.pooler_activation(base.pooler(hidden[:, 0]))
