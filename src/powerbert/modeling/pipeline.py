"""A saved folder as a function from text to labels, as transformers' text-classification pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TextClassificationPipeline

from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.modeling.apply import retention_of
from powerbert.modeling.storage import load
from powerbert.modeling.text import clean, max_length_of


class Classifier(TextClassificationPipeline):  # type: ignore[misc]
    """transformers' pipeline with the text made safe first and truncated to N."""

    def preprocess(self, inputs: Any, **tokenizer_kwargs: Any) -> Any:
        """Cap the characters, then tokenise without reading special tokens out of the text."""
        limit = max_length_of(self.tokenizer, retention_of(self.model))
        if isinstance(inputs, dict):
            inputs = {name: clean(text, limit) for name, text in inputs.items()}
        elif isinstance(inputs, str):
            inputs = clean(inputs, limit)
        options = {"truncation": True, "max_length": limit, "split_special_tokens": True}
        return super().preprocess(inputs, **(options | tokenizer_kwargs))


def pipeline(folder: str | Path, engine: str = "torch", precision: str = "fp32") -> Classifier:
    """Load a saved classifier: pipeline(folder)("some text") gives [{"label", "score"}]."""
    for what, got, known in (("engine", engine, "torch"), ("precision", precision, "fp32")):
        if got != known:
            raise PowerBertError(f"unknown {what}", got=got, rule=f"this version has {known}")
    model, tokenizer = load(folder)
    if not type(model).__name__.endswith("ForSequenceClassification"):
        raise UnsupportedModelError(
            "the pipeline needs a sequence classifier",
            got=type(model).__name__,
            remedy="fine-tune the model first, or call the model itself",
        )
    return Classifier(model=model, tokenizer=tokenizer)
