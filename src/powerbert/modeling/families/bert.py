"""BERT, RoBERTa, XLM-R and ELECTRA: positions live in the embeddings, encoders are alike."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from powerbert.modeling.families.base import Family, Inputs, Projections, project_with, under


class Bert(Family):
    """BERT and the families that share its encoder class for class."""

    of_encoder = (
        *under("attention.self", "query", "key", "value", "attention_head_size", "dropout.p"),
        *("attention.output", "intermediate", "output"),
    )

    def embed(self, base: Any, inputs: Inputs) -> Tensor:
        """Word, type and position embeddings."""
        given = inputs.given("input_ids", "token_type_ids", "position_ids", "inputs_embeds")
        embedded: Tensor = base.embeddings(**given)
        return embedded

    def project(
        self, encoder: Any, hidden: Tensor, asking: Tensor | None, context: Any, positions: Tensor
    ) -> Projections:
        """Three linear layers."""
        own = encoder.attention.self
        return project_with(own.query, own.key, own.value, hidden, asking, own.attention_head_size)

    def dropout(self, encoder: Any) -> float:
        """Read it off the attention module."""
        return float(encoder.attention.self.dropout.p)

    def attention_output(self, encoder: Any, mixed: Tensor, residual: Tensor) -> Tensor:
        """Dense, dropout, add, norm."""
        attended: Tensor = encoder.attention.output(mixed, residual)
        return attended

    def feed_forward(self, encoder: Any, attended: Tensor) -> Tensor:
        """Intermediate, then output with its residual."""
        out: Tensor = encoder.output(encoder.intermediate(attended), attended)
        return out

    def reads_cls_only(self, model: Any) -> bool:
        """Next-sentence prediction reads the pooled CLS too."""
        return super().reads_cls_only(model) or type(model).__name__ == "BertForNextSentencePrediction"


class Roberta(Bert):
    """RoBERTa and XLM-R: positions are counted from behind the PAD's own."""

    def longest(self, config: Any) -> int:
        """The table of positions starts with those of PAD and what stands before it."""
        return super().longest(config) - int(config.pad_token_id) - 1


class Electra(Bert):
    """ELECTRA: embeddings may be narrower than the encoders; its summary may read another row."""

    def embed(self, base: Any, inputs: Inputs) -> Tensor:
        """Project the embeddings to the hidden size where they differ."""
        embedded = super().embed(base, inputs)
        if hasattr(base, "embeddings_project"):
            embedded = base.embeddings_project(embedded)
        return embedded

    def reads_cls_only(self, model: Any) -> bool:
        """Multiple choice reads CLS only with the default summary."""
        summary = getattr(model.config, "summary_type", "first")
        return super().reads_cls_only(model) and (
            summary == "first" or not type(model).__name__.endswith("ForMultipleChoice")
        )
