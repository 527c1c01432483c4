"""DeBERTa-v2 and v3: disentangled attention over relative positions, an optional convolution."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.activations import ACT2FN
from transformers.models.deberta_v2 import modeling_deberta_v2
from typing_extensions import override

from powerbert.elimination.extract import extract
from powerbert.modeling.families.base import Inputs, Projections, by_distance, split_heads
from powerbert.modeling.families.bert import Bert


class Relative(NamedTuple):
    """What DeBERTa knows of positions."""

    buckets: Tensor  # (2 * length - 1,), the bucket of each distance query minus key
    embeddings: Tensor | None  # (2 * span, hidden), of the buckets
    convolved: Tensor | None  # (batch, length, hidden), the convolution of the embedded words


class DebertaV2(Bert):
    """DeBERTa-v2: content attends to position and position to content, by the distance in the input."""

    linear = ("query_proj", "key_proj", "value_proj")
    heads_output = ""  # its own forward pass counts the heads of the configuration
    of_base = (*Bert.of_base, "encoder.relative_attention", "encoder.conv", "encoder.get_rel_embedding")
    of_encoder = ("attention.self.relative_attention", "attention.self.pos_att_type", "attention.self.share_att_key")
    of_host = (modeling_deberta_v2, ("make_log_bucket_position",))

    @override
    def embed(self, base: Any, inputs: Inputs) -> Tensor:
        # PAD is zeroed, as in the stock model.
        return base.embeddings(mask=inputs.real, **inputs.given(self.inputs))

    @override
    def context(self, base: Any, inputs: Inputs, hidden: Tensor) -> Relative:
        """Buckets of all distances, their embeddings, and the convolution that joins encoder 1."""
        stack, length = base.encoder, hidden.shape[1]
        buckets, convolved = torch.arange(1 - length, length, device=hidden.device), None
        if stack.relative_attention and min(sizes := (stack.position_buckets, stack.max_relative_positions)) > 0:
            buckets = modeling_deberta_v2.make_log_bucket_position(buckets, *sizes)
        if stack.conv is not None:
            convolved = stack.conv.conv(hidden.transpose(1, 2)).transpose(1, 2)
            convolved = convolved.masked_fill(~inputs.real[..., None], 0)
        return Relative(buckets.to(torch.long), stack.get_rel_embedding(), convolved)

    @override
    def scale(self, encoder: Any, query: Tensor) -> float:
        """One part of the scale for each kind of attention."""
        kinds = sum(kind in encoder.attention.self.pos_att_type for kind in ("c2p", "p2c"))
        return float((query.shape[-1] * (1 + kinds)) ** -0.5)

    @override
    def bias(self, encoder: Any, heads: Projections, context: Any, asking: Tensor, positions: Tensor) -> Tensor | None:
        """Content to position and position to content: (batch, heads, queries, length)."""
        own = encoder.attention.self
        if not own.relative_attention or not own.pos_att_type:
            return None
        query, key, span = heads.query, heads.key, own.pos_ebd_size
        bucket = by_distance(context.buckets, asking, positions)
        index = (bucket + span).clamp(0, 2 * span - 1)[:, None].expand(-1, query.shape[1], -1, -1)
        embeddings = own.pos_dropout(context.embeddings[: 2 * span])[None]

        def towards(rows: Tensor, layer: str) -> Tensor:
            """Rows (batch, heads, rows, head) by the projected buckets: (batch, heads, rows, 2 * span)."""
            of_position = getattr(own, layer if own.share_att_key else f"pos_{layer}")
            return rows @ split_heads(of_position(embeddings), own.attention_head_size).transpose(2, 3)

        bias = query.new_zeros(())
        if "c2p" in own.pos_att_type:
            bias = bias + towards(query, "key_proj").gather(3, index)
        if "p2c" in own.pos_att_type:
            bias = bias + towards(key, "query_proj").gather(3, index.transpose(2, 3)).transpose(2, 3)
        return bias * self.scale(encoder, query)

    @override
    def after_first(self, base: Any, context: Any, hidden: Tensor, positions: Tensor) -> Tensor:
        """The convolution of the embedded words joins the retained ones after encoder 1."""
        own = base.encoder.conv
        if own is None:
            return hidden
        joined = ACT2FN[own.conv_act](own.dropout(extract(context.convolved, positions)))
        return own.LayerNorm(hidden + joined)
