"""ModernBERT: pre-norm encoders, rotary positions, local attention in most encoders."""

from typing import Any

import torch
from torch import Tensor
from transformers.models.modernbert import modeling_modernbert
from typing_extensions import override

from powerbert.elimination.extract import extract, extract_queries
from powerbert.modeling.families.base import Family, Inputs, Projections, distances, mask_value, split_heads


class ModernBert(Family):
    """ModernBERT: rotary angles and sliding windows are those of the words' own positions."""

    inputs = ("input_ids", "inputs_embeds")  # positions come with the rotary angles
    attention = "attn"
    linear = ("Wqkv",)
    head_size = "head_dim"
    forget = "attention_dropout"
    layers = "layers"
    alike = False  # some attend locally, and the first has no norm
    of_base = (*Family.of_base, "rotary_emb", "final_norm", "config.layer_types")
    mixing = ("attn.Wo", "attn.out_drop")
    feeding = ("mlp_norm", "mlp")
    of_encoder = ("attn_norm", "attention_type", "attn.sliding_window")
    of_host = (modeling_modernbert, ("apply_rotary_pos_emb",))

    @override
    def context(self, base: Any, inputs: Inputs, hidden: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        """Cosines and sines (batch, length, head) of each kind of attention."""
        places = inputs.position_ids
        if places is None:
            places = torch.arange(hidden.shape[1], device=hidden.device)[None]
        places = places.expand(hidden.shape[:2])
        return {kind: base.rotary_emb(hidden, places, kind) for kind in set(base.config.layer_types)}

    @override
    def project(
        self, encoder: Any, hidden: Tensor, asking: Tensor | None, context: Any, positions: Tensor
    ) -> Projections:
        """One fused layer, all rows at once; queries and keys turn by the angles of their positions."""
        own = encoder.attn
        query, key, value = own.Wqkv(encoder.attn_norm(hidden)).chunk(3, dim=-1)
        cos, sin = (extract(table, positions) for table in context[encoder.attention_type])
        query, key, value = (split_heads(part, own.head_dim) for part in (query, key, value))
        query, key = modeling_modernbert.apply_rotary_pos_emb(query, key, cos, sin)
        return Projections(query if asking is None else extract_queries(query, asking), key, value)

    @override
    def bias(self, encoder: Any, heads: Projections, context: Any, asking: Tensor, positions: Tensor) -> Tensor | None:
        """A window around each word's own position in encoders of local attention."""
        if encoder.attn.sliding_window is None:
            return None
        outside = distances(asking, positions).abs() >= encoder.attn.sliding_window
        open_window = torch.zeros_like(outside, dtype=heads.key.dtype)
        return open_window.masked_fill(outside, mask_value(heads.key))[:, None]

    @override
    def attention_output(self, encoder: Any, mixed: Tensor, residual: Tensor) -> Tensor:
        return residual + encoder.attn.out_drop(encoder.attn.Wo(mixed))

    @override
    def feed_forward(self, encoder: Any, attended: Tensor) -> Tensor:
        return attended + encoder.mlp(encoder.mlp_norm(attended))

    @override
    def finish(self, base: Any, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        return base.final_norm(hidden), None

    @override
    def reads_cls_only(self, model: Any) -> bool:
        """Sequence classification with CLS pooling; multiple choice looks CLS up in the caller's layout."""
        head = type(model).__name__
        return head == "ModernBertForSequenceClassification" and model.config.classifier_pooling == "cls"
