"""Words a person can read, and how deep each of them survives.

Paper: Anecdotal Examples

Pure functions over a `Trace`: no terminal, no HTML. Both renderers speak of the same words, counts
and encoders because they take them from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from powerbert.errors import printable

if TYPE_CHECKING:  # the trace lives beside torch; reading one needs none of it
    from powerbert.modeling.trace import Trace

Value = TypeVar("Value")

_PART = "\N{REPLACEMENT CHARACTER}"  # of a character that a later piece shows
_SPACE = "▁"  # as sentencepiece writes it


@dataclass(frozen=True)
class Word:
    """A word piece as a person reads it; one word-vector."""

    text: str
    last: int  # the last encoder that retained it, 0 if encoder 1 eliminated it
    joins: bool = False  # whether it is written without a space after the piece before it
    special: bool = False  # whether the tokenizer added it: [CLS], [SEP] and their like

    @property
    def continues(self) -> bool:
        """Whether it is a later piece of a word, and not a mark of punctuation set close to it."""
        return self.joins and self.text[0].isalnum()


def readable(trace: Trace) -> tuple[Word, ...]:
    """Each word piece in the user's own characters; it joins the piece that ends where it starts.

    Where several pieces share a character, such as the bytes of an emoji, the last of them shows it.
    """
    words: list[Word] = []
    spans = (None, *trace.spans, None)
    for i, (token, last) in enumerate(zip(trace.tokens, last_encoder(trace), strict=True)):
        before, span, after = spans[i : i + 3]
        if span is None:
            words.append(Word(visible(token), last, special=True))
            continue
        shared = after is not None and after.text == span.text and after.start < span.end
        written = trace.texts[span.text][span.start : after.start if shared and after else span.end]
        whole = written or not token.strip(_SPACE)  # a space that the tokenizer set before the text
        close = before is not None and before.text == span.text and span.start <= before.end
        words.append(Word(visible(written.strip()) if whole else _PART, last, close and not written[:1].isspace()))
    return tuple(words)


def last_encoder(trace: Trace) -> list[int]:
    """For each word piece the last encoder that retained it, 0 if encoder 1 eliminated it."""
    last = [0] * len(trace.tokens)
    for j, retained in enumerate(trace.retained, 1):
        for index in retained:
            last[index] = j
    return last


def chosen(words: Sequence[Word], indices: Iterable[int], mark: str = "·") -> Iterator[Word]:
    """The words at ascending `indices`; a piece gets `mark` in the place of a beginning that is missing."""
    before = -1
    for index in indices:
        word = words[index]
        joins = word.joins and before == index - 1
        yield replace(word, text=word.text if joins or not word.continues else mark + word.text, joins=joins)
        before = index


def sentence(words: Iterable[Word], texts: Iterable[str] | None = None) -> str:
    """The words, or what stands for each, as one line: a space before each that does not join."""
    words = list(words)
    shown = [word.text for word in words] if texts is None else texts
    return "".join(text if word.joins else f" {text}" for word, text in zip(words, shown, strict=True)).strip()


def visible(text: str) -> str:
    """Replace what cannot be seen or would steer a terminal: escapes, overrides of direction, line ends.

    A model's text comes from strangers; an escape sequence in it must not reach the screen.
    """
    return printable(text.replace("\n", "↵").replace("\t", "⇥")) or "␣"


def processed(trace: Trace) -> tuple[int, int, float]:
    """Word-vectors processed over all encoders: with elimination, without, and how many times fewer they are.

    Without elimination the encoders that are left out would run as well.
    """
    with_elimination, without = sum(map(len, trace.retained)), len(trace.tokens) * len(trace.retention)
    return with_elimination, without, without / with_elimination


def runs(values: Iterable[Value]) -> list[tuple[str, Value]]:
    """Merge consecutive encoders of the same value: "3-6" or, for a single encoder, "3", and the value."""
    merged = []
    for value, entries in groupby(enumerate(values, 1), key=itemgetter(1)):
        first, *more = [j for j, _ in entries]
        merged.append((f"{first}-{more[-1]}" if more else f"{first}", value))
    return merged


def verdict(trace: Trace) -> tuple[str, str]:
    """The predicted label and its score; a score alone comes first. Empty for a model without a classifier."""
    score = "" if trace.score is None else f"{trace.score:.3f}"
    return (visible(trace.label), score) if trace.label else (score, "")


def trace_json(trace: Trace) -> dict[str, Any]:
    """Return the trace and its figures as a plain dict for JSON."""
    with_elimination, without, fewer = processed(trace)
    finite = trace.score is not None and math.isfinite(trace.score)  # JSON has no NaN
    counts = [len(retained) for retained in trace.retained]
    return {
        "tokens": list(trace.tokens),
        "retained": [list(retained) for retained in trace.retained],
        "last_encoder": last_encoder(trace),
        "counts": counts,
        "share": [round(count / len(trace.tokens), 4) for count in counts],
        "word_vectors": {"processed": with_elimination, "without_elimination": without, "reduction": round(fewer, 4)},
        "retention": trace.retention.to_json(),
        "strategy": trace.strategy,
        "truncated": trace.truncated,
        "label": trace.label,
        "score": trace.score if finite else None,
    }
