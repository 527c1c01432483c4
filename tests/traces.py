"""Traces made by hand, for what is drawn of them."""

from __future__ import annotations

from typing import Any

from powerbert.modeling.trace import Span, Trace
from powerbert.retention import RetentionConfiguration

SPECIAL = ("[CLS]", "[SEP]")


def trace_of(
    tokens: tuple[str, ...],
    retained: tuple[tuple[int, ...], ...],
    retention: RetentionConfiguration | None = None,
    strategy: str = "attn-ws",
    text: str | None = None,
    **answer: Any,
) -> Trace:
    """A trace of one text, by default the words with a space before each that is no piece or closing mark."""
    counts = tuple(map(len, retained))
    retention = retention or RetentionConfiguration.absolute(counts, max_length=len(tokens))
    text = _written(tokens) if text is None else text
    return Trace(tokens, retained, retention, strategy, (text,), _places(tokens, text), **answer)


def _written(tokens: tuple[str, ...]) -> str:
    words = [token for token in tokens if token not in SPECIAL]
    return "".join(word[2:] if word.startswith("##") else word if word in ".,?" else f" {word}" for word in words)


def _places(tokens: tuple[str, ...], text: str) -> tuple[Span | None, ...]:
    """Find one word piece after the other in the text."""
    places: list[Span | None] = []
    end = 0
    for token in tokens:
        if token in SPECIAL:
            places.append(None)
            continue
        piece = token.removeprefix("##")
        start = text.index(piece, end)
        end = start + len(piece)
        places.append(Span(0, start, end))
    return tuple(places)
