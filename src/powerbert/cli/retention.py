"""The flag --retention."""

from __future__ import annotations

from powerbert.errors import RetentionError
from powerbert.retention import RetentionConfiguration


def asked_retention(text: str, max_length: int | None) -> RetentionConfiguration:
    """Read fractions, or counts together with the N they are meant for."""
    counts = all(word.strip().isdigit() for word in text.split(","))
    if counts and max_length is None:
        raise RetentionError(
            "counts need the length N they are meant for",
            got=text,
            remedy="add --max-length N, or give fractions such as 0.9,0.5,0.1",
        )
    return RetentionConfiguration.parse(text, max_length if counts else None)
