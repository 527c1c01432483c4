"""BERT and its nearest relatives: post-norm encoders, with their positions in the embeddings but for MPNet's.

Paper: Accelerating ALBERT
"""

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from powerbert.modeling.families.base import Family, Inputs, Projections, by_distance


class Bert(Family):
    """BERT and the families that share its encoder class for class."""

    attention = "attention.self"
    heads_output = "attention.output.dense"
    mixing: tuple[str, ...] = ("attention.output",)  # these two add and normalise for themselves
    feeding = ("intermediate", "output")

    @override
    def attention_output(self, encoder: Any, mixed: Tensor, residual: Tensor) -> Tensor:
        return encoder.attention.output(mixed, residual)

    @override
    def feed_forward(self, encoder: Any, attended: Tensor) -> Tensor:
        return encoder.output(encoder.intermediate(attended), attended)

    @override
    def reads_cls_only(self, model: Any) -> bool:
        return super().reads_cls_only(model) or type(model).__name__ == "BertForNextSentencePrediction"


class Roberta(Bert):
    """RoBERTa and XLM-R: positions are counted from after the PAD's own."""

    @override
    def longest(self, config: Any) -> int:
        # The table of positions starts with those of PAD and what stands before it.
        return super().longest(config) - int(config.pad_token_id) - 1


class Electra(Bert):
    """ELECTRA: embeddings may be narrower than the encoders; its summary may read another row."""

    @override
    def embed(self, base: Any, inputs: Inputs) -> Tensor:
        embedded = super().embed(base, inputs)
        return base.embeddings_project(embedded) if hasattr(base, "embeddings_project") else embedded

    @override
    def reads_cls_only(self, model: Any) -> bool:
        # Multiple choice reads CLS only with the default summary.
        summarised = type(model).__name__.endswith("ForMultipleChoice")
        return super().reads_cls_only(model) and (not summarised or model.config.summary_type == "first")


class MPNet(Roberta):
    """MPNet: RoBERTa with a bias by the distance of two words in the input, retained or not, in all encoders."""

    inputs = ("input_ids", "position_ids", "inputs_embeds")
    attention = "attention.attn"
    heads_output = ""  # each head has its column of the bias, which all encoders share
    linear = ("q", "k", "v")
    of_base = (*Roberta.of_base, "encoder.relative_position_bucket", "encoder.relative_attention_bias")
    mixing = ("attention.attn.o", "attention.dropout", "attention.LayerNorm")
    attention_output = Family.attention_output

    @override
    def context(self, base: Any, inputs: Inputs, hidden: Tensor) -> Tensor:
        """The bias of each distance from -(length - 1) to length - 1: (2 * length - 1, heads)."""
        length = hidden.shape[1]
        # MPNet's bucket is of key minus query; a distance is query minus key.
        buckets = base.encoder.relative_position_bucket(-torch.arange(1 - length, length, device=hidden.device))
        return base.encoder.relative_attention_bias(buckets)

    @override
    def bias(self, encoder: Any, heads: Projections, context: Any, asking: Tensor, positions: Tensor) -> Tensor | None:
        return by_distance(context, asking, positions).permute(0, 3, 1, 2)


class DistilBert(Family):
    """DistilBERT: no types, no pooler, and its encoders live in `base.transformer`."""

    linear = ("q_lin", "k_lin", "v_lin")
    heads_output = "attention.out_lin"
    mixing = ("attention.out_lin", "sa_layer_norm")
    feeding = ("ffn", "output_layer_norm")
    layers = "transformer.layer"

    @override
    def embed(self, base: Any, inputs: Inputs) -> Tensor:
        return base.embeddings(inputs.input_ids, inputs.inputs_embeds, inputs.position_ids)


class Albert(Family):
    """ALBERT: encoder j is a use of a shared module, so nothing of encoder j may live in it."""

    forget = "attention_dropout.p"
    mixing = ("attention.dense", "attention.output_dropout", "attention.LayerNorm")
    feeding = ("ff_chunk", "full_layer_layer_norm")
    layers = "encoder.albert_layer_groups"
    alike = False
    of_base = (*Family.of_base, "encoder.embedding_hidden_mapping_in", "pooler")

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
    def finish(self, base: Any, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        # The pooler is a bare linear layer.
        return hidden, None if base.pooler is None else base.pooler_activation(base.pooler(hidden[:, 0]))
