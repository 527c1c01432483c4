"""Rows to batches of like length.

A batch costs its rows times its longest input, PAD included. Sorted by real length there is next to no PAD; a budget of
word-vectors then bounds the time and memory of a batch, whatever the lengths are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Sampler

from powerbert.errors import DataError, PowerBertError
from powerbert.text.tokenise import INPUTS

BUDGET = 4096  # word-vectors of a batch at encoder 1
POOL = 50  # batches per pool that is sorted by length: large enough for like lengths, small enough to stay random
TEACHER = "teacher"  # the column of a teacher's answers: for the loss, not for the model

Integers = NDArray[numpy.int64]


def plan_batches(lengths: Sequence[int], budget: int = BUDGET, most: int | None = None) -> list[list[int]]:
    """Indices into `lengths` in batches, long to short: rows times longest within the budget.

    Large batches have few different numbers of rows; such a batch uses at least half of the budget.
    An input that is longer than the budget is a batch of its own; `most` bounds the rows of a batch.
    Long inputs come first, so that memory is at its highest at the start, not in the end.
    """
    if budget < 1 or (most is not None and most < 1):
        rule = "it holds at least one word-vector and one row"
        raise PowerBertError("a batch is too small", got=(budget, most), rule=rule)
    order, batches, at = length_order(lengths), [], 0
    while at < len(order):
        rows = max(1, budget // max(1, lengths[order[at]]))
        rows = min(rows, most or rows, len(order) - at)
        if rows > 16:  # a power of two: engines make and keep kernels for every number of rows they meet
            rows = 1 << (rows.bit_length() - 1)
        batches.append(order[at : at + rows])
        at += rows
    return batches


def length_order(lengths: Sequence[int]) -> list[int]:
    """Row numbers from long to short; equal lengths keep their order."""
    return sorted(range(len(lengths)), key=lambda row: -lengths[row])


def collate(rows: Sequence[Mapping[str, Sequence[int]]], pad: int | None, multiple: int = 1) -> dict[str, Integers]:
    """Pad rows on the right to their longest, rounded up to a multiple: (batch, length) each."""
    names = [name for name in INPUTS if name in rows[0]]
    width = max(len(row["input_ids"]) for row in rows)
    width += -width % multiple
    if len(rows) == 1 and width == len(rows[0]["input_ids"]):  # nothing to pad
        return {name: numpy.array([rows[0][name]], dtype=numpy.int64) for name in names}
    batch = {}
    for name in names:
        filled = numpy.full((len(rows), width), (pad or 0) if name == "input_ids" else 0, dtype=numpy.int64)
        for i, row in enumerate(rows):
            filled[i, : len(row[name])] = row[name]
        batch[name] = filled
    return batch


@dataclass(frozen=True)
class Collator:
    """Rows of a dataset to a batch for training; columns of no use to model or loss are left out.

    Use `remove_unused_columns=False` with Trainer, so that its samplers still see `length`.
    """

    tokenizer: Any
    multiple: int = 1
    """Round the width up to a multiple, so that a long run meets few different shapes."""

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Return (batch, length), or (batch, choices, length) for multiple choice, and `labels`."""
        flat = flattened(rows)
        padded = collate(flat, self.tokenizer.pad_token_id, self.multiple)
        batch = {name: torch.from_numpy(words) for name, words in padded.items()}
        if len(flat) > len(rows):
            batch = {name: words.reshape(len(rows), -1, words.shape[1]) for name, words in batch.items()}
        if "labels" in rows[0]:
            labels = [row["labels"] for row in rows]
            dtype = torch.float32 if isinstance(labels[0], float) else torch.int64
            batch["labels"] = torch.tensor(labels, dtype=dtype)
        if TEACHER in rows[0]:
            batch[TEACHER] = torch.tensor([row[TEACHER] for row in rows], dtype=torch.float32)
        return batch


def flattened(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Every choice of a multiple-choice row as a row of its own; other rows as they are."""
    if not rows or not isinstance(rows[0]["input_ids"][0], Sequence):
        return rows
    names = [name for name in INPUTS if name in rows[0]]
    return [{name: row[name][i] for name in names} for row in rows for i in range(len(row["input_ids"]))]


class LengthGroupedSampler(Sampler[int]):
    """Row numbers such that every `batch_size` in turn have like lengths; give it to a DataLoader.

    The order is decided by seed and epoch alone. transformers' own `group_by_length` will not do: it draws from torch's
    global generator, so a resumed epoch has another order; it measures `input_ids`, which for multiple choice has
    length 4 everywhere; and it shuffles evaluation.

    `batch_size` is the effective one (per device, times accumulation, times processes), so that any split of it into
    devices and steps trains on the same batches. Trainer and accelerate call `set_epoch` as each epoch starts.
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
