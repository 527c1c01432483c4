"""Batches of like length in an order that seed and epoch alone decide.

transformers' own `train_sampling_strategy="group_by_length"` will not do (5.22): it draws from torch's
global generator, so a resumed epoch has another order; the `length` column is removed before it is
looked for, so lengths are measured on `input_ids`, which for multiple choice has length 4 everywhere;
and it shuffles evaluation, so predictions come back in another order than the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy
from torch.utils.data import Sampler

from powerbert.errors import DataError

POOL = 50
"""Batches per pool that is sorted by length: large enough for like lengths, small enough to stay random."""


class LengthGroupedSampler(Sampler[int]):
    """Row numbers such that every `batch_size` in turn have like lengths; give it to a DataLoader.

    `batch_size` is the effective one (per device, times accumulation, times processes), so that any
    split of it into devices and steps trains on the same batches. Trainer and accelerate call
    `set_epoch` at the start of each epoch.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        if batch_size < 1:
            raise DataError("the batch size is too small", got=batch_size, rule="at least 1")
        self.lengths = numpy.asarray(lengths, dtype=numpy.int64)
        self.batch_size, self.seed, self.epoch = batch_size, seed, 0

    def __len__(self) -> int:
        return len(self.lengths)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order is next."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        random = numpy.random.default_rng([self.seed, self.epoch])
        size, shuffled = self.batch_size, random.permutation(len(self.lengths))
        batches: list[list[int]] = []
        for start in range(0, len(shuffled), size * POOL):
            pool = shuffled[start : start + size * POOL]
            rows = pool[numpy.argsort(-self.lengths[pool], kind="stable")].tolist()
            batches += [rows[at : at + size] for at in range(0, len(rows), size)]
        # A pool runs from long to short: shuffled batches keep the lengths of one step unrelated to the
        # next. Only the last batch can be short, and it stays last.
        order = random.permutation(max(len(batches) - 1, 0)).tolist()
        for position in [*order, *range(len(order), len(batches))]:
            yield from batches[position]


def length_order(lengths: Sequence[int]) -> list[int]:
    """Row numbers from long to short, for evaluation; equal lengths keep their order."""
    order: list[int] = numpy.argsort(-numpy.asarray(lengths, dtype=numpy.int64), kind="stable").tolist()
    return order
