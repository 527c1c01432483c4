"""A stated, seeded part of a dataset."""

from __future__ import annotations

import numpy
from datasets import Dataset

from powerbert.errors import DataError
from powerbert.tasks.provenance import describe, notes_of, source_of, unit_of


def subset(dataset: Dataset, rows: int, seed: int) -> Dataset:
    """Shuffle, then take `rows` rows (all, if there are fewer); the part is told in `notes_of`.

    Shuffled first, because files come in order: RACE by level, aclImdb by label. With one seed a smaller
    part is the beginning of a larger one.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise DataError("a part has at least one row", got=rows, rule="rows is a whole number from 1")
    order = numpy.random.default_rng(seed).permutation(len(dataset))[:rows]
    part = dataset.select(order.tolist(), keep_in_memory=True)
    note = f"{len(part):,} of {len(dataset):,} rows, shuffled with seed {seed}"
    return describe(part, source_of(dataset), unit_of(dataset), [*notes_of(dataset), note])
