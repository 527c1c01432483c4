"""A saved folder as a function from text to labels, as transformers' text-classification pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TextClassificationPipeline

from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.modeling.packing import pack
from powerbert.modeling.storage import load
from powerbert.modeling.text import clean, longest_input, tokenizer_options


class Classifier(TextClassificationPipeline):
    """transformers' pipeline with the text made safe first and truncated to N."""

    def preprocess(self, input_: Any, **preprocess_parameters: Any) -> Any:  # type: ignore[override]
        """Cap the characters, then tokenise without reading special tokens out of the text."""
        limit = longest_input(self.model, self.tokenizer)
        if isinstance(input_, dict):
            input_ = {name: clean(text, limit) for name, text in input_.items()}
        elif isinstance(input_, str):
            input_ = clean(input_, limit)
        return super().preprocess(input_, **(tokenizer_options(limit) | preprocess_parameters))


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
    return Classifier(model=pack(model), tokenizer=tokenizer)  # type: ignore[no-untyped-call]
