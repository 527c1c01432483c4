"""Texts in any order to batches of like length, and answers back in the order of the texts.

A batch costs its rows times its longest input, PAD included. Sorted by real length there is next to no
PAD; a budget of word-vectors then bounds the time and memory of a batch, whatever the lengths are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy
from numpy.typing import NDArray

from powerbert.engines.engine import Engine, Integers
from powerbert.errors import PowerBertError
from powerbert.text.tokenise import clean, tokenizer_options

BUDGET = 4096
"""Word-vectors of a batch at encoder 1."""
WINDOW = 2048
"""Texts that are held, tokenised and sorted at a time: bounds memory for a stream of any size."""

Text = str | tuple[str, str]
Row = dict[str, list[int]]


def plan(lengths: Sequence[int], budget: int = BUDGET, most: int | None = None) -> list[list[int]]:
    """Indices into `lengths` in batches, long to short: rows times longest within the budget.

    Large batches have few different numbers of rows; such a batch uses at least half of the budget.
    An input that is longer than the budget is a batch of its own; `most` bounds the rows of a batch.
    Long inputs come first, so that memory is at its highest at the start, not in the end.
    """
    if budget < 1 or (most is not None and most < 1):
        raise PowerBertError("a batch holds at least one word-vector and one row", got=(budget, most))
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    batches: list[list[int]] = []
    at = 0
    while at < len(order):
        rows = max(1, budget // max(1, lengths[order[at]]))
        rows = _few_numbers(min(rows, most or rows, len(order) - at))
        batches.append(order[at : at + rows])
        at += rows
    return batches


def _few_numbers(rows: int) -> int:
    """A power of two from 16 on: engines make and keep kernels for every number of rows they meet."""
    return rows if rows < 16 else 1 << (rows.bit_length() - 1)


def tokenise(engine: Engine, texts: Sequence[Text], first: int = 0) -> list[Row]:
    """Tokenise texts or pairs that have a word each; errors count from `first`."""
    for number, text in enumerate(texts, first):
        parts = text if isinstance(text, tuple) else (text,)
        if not all(isinstance(part, str) and part.strip() for part in parts):
            raise PowerBertError(f"text {number} is empty or not text", remedy="give at least one word")
    return encode(engine, texts)


def encode(engine: Engine, texts: Sequence[Text]) -> list[Row]:
    """Tokenise texts or pairs, also empty ones, without padding, cut to what the model reads."""
    limit = engine.limits.longest
    cut = [
        clean(text, limit) if isinstance(text, str) else tuple(clean(part, limit) for part in text)
        for text in texts
    ]
    tokenizer: Any = engine.tokenizer
    made = tokenizer(cut, **tokenizer_options(limit)) if cut else {}
    names = [name for name in engine.limits.inputs if name in made]
    return [{name: made[name][i] for name in names} for i in range(len(cut))]


def collate(rows: Sequence[Row], pad: int) -> dict[str, Integers]:
    """Pad rows on the right to their longest: (batch, length) each."""
    if len(rows) == 1:
        return {name: numpy.array([ids], dtype=numpy.int64) for name, ids in rows[0].items()}
    width = max(len(row["input_ids"]) for row in rows)
    batch = {}
    for name in rows[0]:
        filled = numpy.full((len(rows), width), pad if name == "input_ids" else 0, dtype=numpy.int64)
        for i, row in enumerate(rows):
            filled[i, : len(row[name])] = row[name]
        batch[name] = filled
    return batch


def answer_rows(
    engine: Engine, rows: Sequence[Row], *, budget: int = BUDGET, most: int | None = None
) -> list[NDArray[numpy.float32]]:
    """Logits (labels,) of each tokenised text, in the order of the rows."""
    logits: list[NDArray[numpy.float32]] = [numpy.empty(0, numpy.float32)] * len(rows)
    # Looking PAD up takes as long as collating, and one row alone has none.
    pad = int(getattr(engine.tokenizer, "pad_token_id", None) or 0) if len(rows) > 1 else 0
    for batch in plan([len(row["input_ids"]) for row in rows], budget, most):
        for i, found in zip(batch, engine.run(collate([rows[i] for i in batch], pad)).logits, strict=True):
            logits[i] = found
    return logits


def answer(
    engine: Engine, texts: Iterable[Text], *, budget: int = BUDGET, window: int = WINDOW
) -> Iterator[NDArray[numpy.float32]]:
    """Logits (labels,) of each text, in the order of the texts, which may be a stream of any size."""
    stream, read = iter(texts), 0
    while held := list(islice(stream, window)):
        rows, read = tokenise(engine, held, read), read + len(held)
        yield from answer_rows(engine, rows, budget=budget)
