"""BERT, RoBERTa, XLM-R, ELECTRA and DistilBERT: positions live in the embeddings, encoders are alike."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from typing_extensions import override

from powerbert.modeling.families.base import Family, Inputs


class Bert(Family):
    """BERT and the families that share its encoder class for class."""

    attention = "attention.self"
    of_encoder: tuple[str, ...] = ("attention.output", "intermediate", "output")

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
        summary = getattr(model.config, "summary_type", "first")
        return super().reads_cls_only(model) and (
            summary == "first" or not type(model).__name__.endswith("ForMultipleChoice")
        )


class DistilBert(Family):
    """DistilBERT: no types, no pooler, and its encoders live in `base.transformer`."""

    linear = ("q_lin", "k_lin", "v_lin")
    of_base = ("embeddings", "transformer.layer")
    of_encoder = ("attention.out_lin", "sa_layer_norm", "ffn", "output_layer_norm")

    @override
    def encoders(self, base: Any) -> list[Any]:
        return list(base.transformer.layer)

    @override
    def embed(self, base: Any, inputs: Inputs) -> Tensor:
        return base.embeddings(inputs.input_ids, inputs.inputs_embeds, inputs.position_ids)

    @override
    def attention_output(self, encoder: Any, mixed: Tensor, residual: Tensor) -> Tensor:
        return encoder.sa_layer_norm(encoder.attention.out_lin(mixed) + residual)

    @override
    def feed_forward(self, encoder: Any, attended: Tensor) -> Tensor:
        return encoder.output_layer_norm(encoder.ffn(attended) + attended)
