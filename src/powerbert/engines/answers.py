"""The one way from texts through an engine to logits, in the order of the texts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

import numpy
from numpy.typing import NDArray

from powerbert.engines.engine import Engine
from powerbert.text.batches import BUDGET, collate, plan_batches
from powerbert.text.tokenise import Text, Tokenised, check_texts, tokenise

MOST_HELD = 2048  # texts that are held, tokenised and sorted at a time: bounds memory for a stream of any size
FIRST = 32  # texts of a stream's first window, so that its first answers come soon

Logits = NDArray[numpy.float32]  # (labels,)
Item = TypeVar("Item")


def tokenise_for(engine: Engine, texts: Sequence[Text], longest: int | None = None) -> Tokenised:
    """Tokenise texts or pairs for an engine, cut to what it reads."""
    limits = engine.limits
    return tokenise(engine.tokenizer, texts, min(longest or limits.longest, limits.longest), limits.inputs)


def answer_rows(
    engine: Engine,
    rows: Sequence[Mapping[str, Sequence[int]]],
    *,
    budget: int = BUDGET,
    most: int | None = None,
    done: Callable[[int], object] = lambda rows: None,
) -> list[Logits]:
    """Logits (labels,) of each row, in the order of the rows.

    done: is called after each batch with the number of its rows, as for a progress bar.
    """
    logits: list[Logits] = [numpy.empty(0, numpy.float32)] * len(rows)
    # Looking PAD up takes as long as collating, and one row alone has none.
    pad = engine.tokenizer.pad_token_id if len(rows) > 1 else 0
    for batch in plan_batches([len(row["input_ids"]) for row in rows], budget, most):
        found = engine.run(collate([rows[i] for i in batch], pad)).logits
        for i, row in zip(batch, found, strict=True):
            logits[i] = row
        done(len(batch))
    return logits


def answer(engine: Engine, texts: Iterable[Text], *, budget: int = BUDGET, window: int = MOST_HELD) -> Iterator[Logits]:
    """Logits (labels,) of each text, in the order of the texts, which may be a stream of any size."""
    read = 0
    for held in windows(texts, window):
        check_texts(held, read)
        read += len(held)
        yield from answer_rows(engine, tokenise_for(engine, held).rows, budget=budget)


def windows(
    stream: Iterable[Item],
    most: int = MOST_HELD,
    first: int | None = None,
    *,
    weight: Callable[[Item], int] = lambda item: 0,
    heaviest: int = 0,
) -> Iterator[list[Item]]:
    """A stream in lists, the first of `first` items and each further one twice as long, up to `most`.

    A list also ends with the item at which the weight of its items is above `heaviest`. An error of the stream
    is raised after the items before it have been given.
    """
    size, source = min(first or most, most), iter(stream)
    while True:
        held: list[Item] = []
        heavy, weighed = False, 0
        try:
            for item in islice(source, size):
                held.append(item)
                weighed += weight(item)
                if heavy := weighed > heaviest:
                    break
        except Exception:  # whatever the source raises: the answers before it come first
            if held:
                yield held
            raise
        if held:
            yield held
        if len(held) < size and not heavy:
            return
        size = min(2 * size, most)
