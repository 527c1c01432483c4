"""Text to model inputs, safely: text is cut before it is tokenised and cannot spell special tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from powerbert.modeling.apply import base_of, retention_of
from powerbert.modeling.families.registry import family_of

CHARACTERS_PER_TOKEN = 32
"""More characters than this per token are never read: 10 MB of words took 34 s to tokenise to 128."""


def longest_input(model: Any, tokenizer: Any) -> int:
    """The least of what the model's positions, the tokenizer and N of its configuration allow."""
    base, retention = base_of(model), retention_of(model)
    limit = min(family_of(base).longest(base.config), int(tokenizer.model_max_length))
    return limit if retention is None or retention.max_length is None else min(limit, retention.max_length)


def tokenizer_options(limit: int) -> dict[str, Any]:
    """How text is tokenised everywhere: truncated, and `[SEP]` in it is four characters, not a token."""
    return {"truncation": True, "max_length": limit, "split_special_tokens": True}


def encode_texts(model: Any, tokenizer: Any, texts: Sequence[str], pairs: Sequence[str] | None = None) -> Any:
    """Tokenise to tensors (a BatchEncoding), truncated to the longest input and padded to the batch's."""
    limit = longest_input(model, tokenizer)
    parts = [texts] if pairs is None else [texts, pairs]
    cut = [[clean(text, limit) for text in part] for part in parts]
    return tokenizer(*cut, padding=True, return_tensors="pt", **tokenizer_options(limit))


def clean(text: str, limit: int) -> str:
    """Cap the characters and replace lone surrogates, which no tokenizer accepts."""
    return text[: limit * CHARACTERS_PER_TOKEN].encode("utf-8", "replace").decode("utf-8")
