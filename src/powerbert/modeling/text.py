"""Text to model inputs, safely: text is cut before it is tokenised and cannot spell special tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from powerbert.retention import RetentionConfiguration

CHARACTERS_PER_TOKEN = 32
"""More characters than this per token are never read: 10 MB of words took 34 s to tokenise to 128."""


def max_length_of(tokenizer: Any, retention: RetentionConfiguration | None) -> int:
    """N of an absolute configuration, else the tokenizer's own limit (512 where it states none)."""
    limit = min(int(tokenizer.model_max_length), 1 << 20)
    limit = 512 if limit == 1 << 20 else limit
    if retention is None or retention.max_length is None:
        return limit
    return min(limit, retention.max_length)


def encode_texts(
    tokenizer: Any,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    retention: RetentionConfiguration | None = None,
) -> dict[str, Any]:
    """Tokenise to tensors, truncated to N and padded to the longest."""
    limit = max_length_of(tokenizer, retention)
    parts = [texts] if pairs is None else [texts, pairs]
    cut = [[clean(text, limit) for text in part] for part in parts]
    batch = tokenizer(
        *cut,
        truncation=True,
        max_length=limit,
        padding=True,
        return_tensors="pt",
        split_special_tokens=True,
    )
    return dict(batch)


def clean(text: str, max_length: int) -> str:
    """Cap the characters and replace lone surrogates, which no tokenizer accepts."""
    text = text[: max_length * CHARACTERS_PER_TOKEN]
    return text.encode("utf-8", "replace").decode("utf-8")
