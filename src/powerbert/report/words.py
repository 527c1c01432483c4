"""Words a person can read, and how deep each of them survives.

Paper: Anecdotal Examples

Pure functions over a `Trace`: no terminal, no HTML. Both renderers speak of the same words, counts
and encoders because they take them from here.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from powerbert.errors import printable

if TYPE_CHECKING:  # the trace lives beside torch; reading one needs none of it
    from powerbert.modeling.trace import Trace

_PART = "\N{REPLACEMENT CHARACTER}"  # of a character that a later piece shows
_SPACE = "▁"  # as sentencepiece writes it


@dataclass(frozen=True)
class Word:
    """A word piece as a person reads it; one word-vector."""

    text: str
    joins: bool = False
    """Whether it is written without a space after the piece before it."""
    special: bool = False
    """Whether the tokenizer added it: [CLS], [SEP] and their like."""

    @property
    def continues(self) -> bool:
        """Whether it is a later piece of a word, and not a mark of punctuation set close to it."""
        return self.joins and self.text[0].isalnum()


@dataclass(frozen=True)
class Run:
    """Consecutive encoders that retain the same word-vectors."""

    first: int
    last: int
    retained: tuple[int, ...]

    @property
    def name(self) -> str:
        """Write "3-6", or "3" for a single encoder."""
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


# ---- how deep ----------------------------------------------------------------------------


def last_encoder(trace: Trace) -> tuple[int, ...]:
    """For each word piece the last encoder that retained it, 0 if encoder 1 eliminated it."""
    last = [0] * len(trace.tokens)
    for j, retained in enumerate(trace.retained, 1):
        for index in retained:
            last[index] = j
    return tuple(last)


def share(trace: Trace) -> tuple[float, ...]:
    """Word-vectors that each encoder retains and processes, as a share of the input's."""
    length = max(len(trace.tokens), 1)
    return tuple(len(retained) / length for retained in trace.retained)


def processed(trace: Trace) -> tuple[int, int]:
    """Word-vectors processed over all encoders: with elimination, and without."""
    return sum(map(len, trace.retained)), len(trace.tokens) * len(trace.retained)


def reduction(trace: Trace) -> float:
    """How many times fewer word-vectors are processed than without elimination."""
    with_elimination, without = processed(trace)
    return without / max(with_elimination, 1)


def survivors(trace: Trace) -> tuple[int, ...]:
    """Indices of the word pieces that the last encoder retains."""
    return trace.retained[-1] if trace.retained else tuple(range(len(trace.tokens)))


def runs(trace: Trace) -> tuple[Run, ...]:
    """Merge consecutive encoders that retain the same word-vectors."""
    merged = []
    for retained, encoders in groupby(enumerate(trace.retained, 1), key=lambda pair: pair[1]):
        numbers = [j for j, _ in encoders]
        merged.append(Run(numbers[0], numbers[-1], retained))
    return tuple(merged)


def verdict(trace: Trace) -> str:
    """Write the prediction as "positive (0.982)"; empty for a model without a classifier."""
    if trace.score is None:
        return visible(trace.label) if trace.label else ""
    score = f"{trace.score:.3f}"
    return f"{visible(trace.label)} ({score})" if trace.label else score


def trace_json(trace: Trace) -> dict[str, Any]:
    """Return the trace and its figures as a plain dict for JSON."""
    with_elimination, without = processed(trace)
    finite = trace.score is not None and math.isfinite(trace.score)  # JSON has no NaN
    return {
        "tokens": list(trace.tokens),
        "retained": [list(retained) for retained in trace.retained],
        "last_encoder": list(last_encoder(trace)),
        "counts": [len(retained) for retained in trace.retained],
        "share": [round(part, 4) for part in share(trace)],
        "word_vectors": {
            "processed": with_elimination,
            "without_elimination": without,
            "reduction": round(reduction(trace), 4),
        },
        "retention": trace.retention.to_json(),
        "strategy": trace.strategy,
        "truncated": trace.truncated,
        "label": trace.label,
        "score": trace.score if finite else None,
    }


# ---- readable ----------------------------------------------------------------------------


def readable(trace: Trace) -> tuple[Word, ...]:
    """Each word piece in the user's own characters; it joins the piece that ends where it starts.

    Where several pieces share a character, such as the bytes of an emoji, the last of them shows it.
    """
    words: list[Word] = []
    spans = trace.spans
    for token, before, span, after in zip(trace.tokens, (None, *spans[:-1]), spans, (*spans[1:], None), strict=True):
        if span is None:
            words.append(Word(visible(token), special=True))
            continue
        shared = after is not None and after.text == span.text and after.start < span.end
        written = trace.texts[span.text][span.start : after.start if shared and after else span.end]
        whole = written or not token.strip(_SPACE)  # a space that the tokenizer set before the text
        close = before is not None and before.text == span.text and span.start <= before.end
        words.append(Word(visible(written.strip()) if whole else _PART, close and not written[:1].isspace()))
    return tuple(words)


def sentence(words: tuple[Word, ...], indices: Collection[int] | None = None, mark: str = "·") -> str:
    """Write the words (only those at `indices`, if given) as one line.

    A piece gets `mark` in the place of a beginning that is missing from `indices`.
    """
    chosen = range(len(words)) if indices is None else sorted(indices)
    parts: list[str] = []
    before = -1
    for index in chosen:
        word = words[index]
        if word.joins and before == index - 1:
            parts.append(word.text)
        else:
            parts.append(f" {mark if word.continues else ''}{word.text}")
        before = index
    return "".join(parts).strip()


def visible(text: str) -> str:
    """Replace what cannot be seen or would steer a terminal: escapes, overrides of direction, line ends.

    A model's text comes from strangers; an escape sequence in it must not reach the screen.
    """
    return printable(text.replace("\n", "↵").replace("\t", "⇥")) or "␣"
