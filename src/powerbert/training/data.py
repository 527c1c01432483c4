"""Checked, tokenised data for one task and model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from datasets import Dataset

from powerbert.errors import DataError
from powerbert.modeling.limits import longest_input
from powerbert.tasks.checks import Findings, check_splits
from powerbert.tasks.encoding import choose_max_length, covering_length, encode_split, measure_lengths
from powerbert.tasks.readers import read_splits
from powerbert.tasks.registry import own_task
from powerbert.tasks.sources import DataSource
from powerbert.tasks.task import Split, Task

SHORTEST = 8  # of N


@dataclass(frozen=True)
class Data:
    """The splits of a task, before any model has seen them."""

    task: Task
    splits: Mapping[str, Split]
    findings: Findings
    max_length: int | None = None
    """N as the user wants it, the longest input; None: the task's, else the paper's rule."""

    @classmethod
    def of(cls, task: Task, splits: Mapping[str, Split], max_length: int | None = None) -> Data:
        """Check the splits; what cannot be trained on is refused here, before any work."""
        if max_length is not None and max_length < SHORTEST:
            raise DataError("--max-length is too small", got=max_length, rule=f"N is at least {SHORTEST}")
        return cls(task, splits, check_splits(splits, task), max_length)

    @classmethod
    def read(cls, train: DataSource, dev: DataSource, *, text: str, text_pair: str | None = None, label: str) -> Data:
        """Read and check your own files; `text`, `text_pair` and `label` name their columns."""
        return cls.of(*read_splits({"train": train, "dev": dev}, own_task(text, text_pair, label)))

    @cached_property
    def digest(self) -> str:
        """Names the content of all splits: a run is not resumed on other data."""
        content = hashlib.sha256()
        for name, split in self.splits.items():
            content.update(name.encode())
            for batch in split.dataset.iter(batch_size=10_000):
                content.update(json.dumps(batch, sort_keys=True).encode())
        return content.hexdigest()[:16]


@dataclass(frozen=True)
class Encoded:
    """Tokenised splits, and the N they were cut to."""

    task: Task
    splits: Mapping[str, Dataset]
    max_length: int
    why: str
    """Where N comes from, for the user to read."""


def encode(data: Data, model: Any, tokenizer: Any, max_length: int | None = None) -> Encoded:
    """Tokenise all splits to N: as given, else the task's, else by the paper's rule.

    The tokenizer is given N too: what is trained so is evaluated so. An earlier training's N is no limit.
    """
    limit, max_length = longest_input(model), max_length or data.max_length
    if max_length is not None:
        why = f"N={max_length} as given"
    elif data.task.max_length is not None:
        max_length, why = data.task.max_length, f"N={data.task.max_length} of the paper for {data.task.name}"
    else:
        first = next(iter(data.splits.values()))
        lengths = measure_lengths(data.splits.get("train", first), data.task, tokenizer)
        max_length = choose_max_length(lengths, limit)
        why = f"N={max_length} by the paper's rule: 99 % of the inputs have at most {covering_length(lengths)}"
    if max_length > limit:
        max_length, why = limit, f"N={limit}, the longest input of the model"
    tokenizer.model_max_length = max_length
    task = replace(data.task, max_length=max_length)
    splits = {name: encode_split(rows, task, tokenizer, max_length) for name, rows in data.splits.items()}
    return Encoded(task, splits, max_length, why)
