"""Words a person can read, and how deep each of them survives.

Paper: Anecdotal Examples

Pure functions over a `Trace`: no terminal, no HTML. Both renderers speak of the same words, counts
and encoders because they take them from here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from powerbert.errors import printable

if TYPE_CHECKING:  # the trace lives beside torch; reading one needs none of it
    from powerbert.modeling.trace import Trace

STRATEGY_NAMES = {"attn-ws": "Attn-WS", "head-ws": "Head-WS", "rand-ws": "Rand-WS"}
"""The strategies as the paper writes them."""

_SPECIAL = re.compile(r"\[(CLS|SEP|PAD)\]|</?s>|<(cls|sep|pad)>|<\|.*\|>")
_CLOSING = frozenset(".,;:!?)]}%…\N{RIGHT DOUBLE QUOTATION MARK}")
_OPENING = frozenset("([{$\N{LEFT DOUBLE QUOTATION MARK}")
_APOSTROPHES = frozenset("'\N{RIGHT SINGLE QUOTATION MARK}")
_CONTRACTED = frozenset({"s", "t", "re", "ve", "ll", "d", "m"})
_BYTE_SPACE, _PIECE_SPACE = "Ġ", "▁"


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


def readable(tokens: tuple[str, ...]) -> tuple[Word, ...]:
    """Turn word pieces into words: "##ing" joins the word before, "Ġgood" and "▁good" are "good".

    >>> [word.text for word in readable(("[CLS]", "fad", "##ing", "[SEP]"))]
    ['[CLS]', 'fad', 'ing', '[SEP]']
    """
    read = _reader(tokens)
    words: list[Word] = []
    for index, token in enumerate(tokens):
        if _SPECIAL.fullmatch(token):
            words.append(Word(visible(token), special=True))
            continue
        text, joins = read(tokens, index)
        after_word = bool(words) and not words[-1].special
        words.append(Word(visible(text), joins and after_word))
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


# ---- the three ways to write a word piece ------------------------------------------------


Reader = Callable[[tuple[str, ...], int], tuple[str, bool]]
"""(tokens, index) -> (text, whether it joins the piece before)."""


def _reader(tokens: tuple[str, ...]) -> Reader:
    """Tell the kind of tokenizer by its pieces: a trace carries no tokenizer."""
    if any(token.startswith(_PIECE_SPACE) for token in tokens):
        return _read_sentencepiece
    if any(_BYTE_SPACE in token for token in tokens) or "<s>" in tokens:
        return _read_bytes
    return _read_wordpiece


def _read_wordpiece(tokens: tuple[str, ...], index: int) -> tuple[str, bool]:
    """BERT: "##" joins. BERT also parts punctuation from words, so closing marks join again."""
    token = tokens[index]
    before = tokens[index - 1] if index else ""
    if token.startswith("##") and len(token) > 2:
        return token[2:], True
    after = tokens[index + 1] if index + 1 < len(tokens) else ""
    contracts = token in _APOSTROPHES and after in _CONTRACTED
    contracted = token in _CONTRACTED and before in _APOSTROPHES
    return token, token in _CLOSING or before in _OPENING or contracts or contracted


def _read_sentencepiece(tokens: tuple[str, ...], index: int) -> tuple[str, bool]:
    """ALBERT, XLM-R, DeBERTa-v2: "▁" stands for the space before a word."""
    token = tokens[index]
    return token.replace(_PIECE_SPACE, " ").strip(" "), not token.startswith(_PIECE_SPACE)


def _read_bytes(tokens: tuple[str, ...], index: int) -> tuple[str, bool]:
    """RoBERTa, ModernBERT: each character stands for a byte, "Ġ" for the space before a word."""
    token = tokens[index]
    table = _byte_of_character()
    if not all(character in table for character in token):  # a piece added to the vocabulary as it is
        return token.strip(), not token.startswith(" ")
    text = bytes(table[character] for character in token).decode("utf-8", errors="replace")
    return text.strip(" "), not text.startswith(" ")


@cache
def _byte_of_character() -> dict[str, int]:
    """GPT-2's alphabet of 256 printable characters, one per byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(0x100 + rank): byte for rank, byte in enumerate(others)}
