"""What is looked at before training: every text, and each split as a whole and against the others."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from datasets import ClassLabel, Dataset

from powerbert.errors import DataError
from powerbert.tasks.provenance import notes_of, source_of, unit_of
from powerbert.tasks.task import Task

BATCH = 1000


class Spread(NamedTuple):
    """The labels of a regression split."""

    least: float
    mean: float
    greatest: float


@dataclass(frozen=True)
class Findings:
    """What is worth telling a user about data that can be trained on."""

    rows: Mapping[str, int]
    """Split -> rows."""
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Split -> class name -> rows, for classification and multiple choice."""
    spread: Mapping[str, Spread] = field(default_factory=dict)
    """Split -> labels, for regression."""
    warnings: tuple[str, ...] = ()
    """One line each, naming file and row."""
    notes: tuple[str, ...] = ()
    """What the readers skipped and which part was taken, one line each."""

    def lines(self) -> list[str]:
        """Rows and labels, one line per split."""
        shown = []
        for split, rows in self.rows.items():
            parts = [f"{name} {count:,}" for name, count in self.labels.get(split, {}).items()]
            if len(parts) > 10:
                parts = [*parts[:10], f"and {len(parts) - 10} more classes"]
            if split in self.spread:
                least, mean, greatest = self.spread[split]
                parts = [f"labels from {least:g} to {greatest:g}, mean {mean:.2f}"]
            shown.append(f"{split}: {rows:,} rows" + (f" ({', '.join(parts)})" if parts else ""))
        return shown


def text_problem(text: object) -> str | None:
    """Why a text cannot be used, or None; length is no reason, long texts are cut before tokenising."""
    if not isinstance(text, str):
        return "is missing" if text is None else "is not text"
    if not text.strip():
        return "is empty"
    if "\0" in text:
        return "has a NUL character"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "has a lone surrogate, half of a character"
    return None


def check_splits(splits: Mapping[str, Dataset], task: Task) -> Findings:
    """Look at whole splits: refuse a training set of one class, warn of repetitions and overlap.

    Rows are checked one by one already where they are read.
    """
    labels: dict[str, dict[str, int]] = {}
    spread: dict[str, Spread] = {}
    warnings: list[str] = []
    for split, dataset in splits.items():
        if "label" not in dataset.column_names:
            continue
        values = dataset["label"][:]  # at once; iterating over a column fetches row by row
        if task.kind == "regression":
            spread[split] = Spread(min(values), sum(values) / len(values), max(values))
        else:
            labels[split] = _distribution(dataset, values)
        if len(set(values)) == 1:
            warnings.append(_one_label(split, dataset, task, labels.get(split)))
    trained: dict[bytes, _Row] | None = None
    for split in sorted(splits, key=lambda split: split != "train"):  # the training set first
        rows = _rows(splits[split], task)
        first: dict[bytes, _Row] = {}
        for row in rows:
            first.setdefault(row.texts, row)
        warnings += _repetitions(split, splits[split], rows, first)
        if split == "train":
            trained = first
        elif trained is not None:
            warnings += _overlap(split, splits[split], rows, trained, splits["train"])
    notes = tuple(f"{split}: {note}" for split, dataset in splits.items() for note in notes_of(dataset))
    counts = {split: len(dataset) for split, dataset in splits.items()}
    return Findings(counts, labels, spread, tuple(warnings), notes)


def _distribution(dataset: Dataset, values: list[int]) -> dict[str, int]:
    feature, count = dataset.features["label"], Counter(values)
    names = feature.names if isinstance(feature, ClassLabel) else [str(i) for i in range(max(values) + 1)]
    return {name: count[index] for index, name in enumerate(names)}


def _one_label(split: str, dataset: Dataset, task: Task, labels: Mapping[str, int] | None) -> str:
    """Refuse a training set with nothing to learn; a warning for any other split."""
    only = dataset["label"][0]
    if labels is not None:
        only = next(name for name, count in labels.items() if count)
    start = unit_of(dataset), dataset["row"][0] if "row" in dataset.column_names else 1
    what = (
        f"{source_of(dataset)}: all {len(dataset):,} rows from {start[0]} {start[1]} on are labelled {only!r}"
    )
    if split == "train":
        kinds = "values" if task.kind == "regression" else "classes"
        raise DataError(what, rule=f"training needs at least two {kinds}", remedy="check the label column")
    return f"{what}, so the metric on {split} says little"


class _Row(NamedTuple):
    texts: bytes  # a digest: RACE repeats its long articles
    number: int
    label: float | None


def _rows(dataset: Dataset, task: Task) -> list[_Row]:
    names = dataset.column_names
    rows: list[_Row] = []
    for batch in dataset.iter(batch_size=BATCH):
        size = len(batch[names[0]])
        numbers = batch["row"] if "row" in names else range(len(rows) + 1, len(rows) + 1 + size)
        labels = batch["label"] if "label" in names else [None] * size
        texts = zip(*(batch[name] for name in task.columns), strict=True)
        for parts, number, label in zip(texts, numbers, labels, strict=True):
            flat = [part for text in parts for part in ([text] if isinstance(text, str) else text)]
            digest = hashlib.blake2b("\0".join(flat).encode(), digest_size=16).digest()
            rows.append(_Row(digest, number, label))
    return rows


def _repetitions(split: str, dataset: Dataset, rows: list[_Row], first: Mapping[bytes, _Row]) -> list[str]:
    repeated = [(row, first[row.texts]) for row in rows if first[row.texts] is not row]
    if not repeated:
        return []
    (row, earlier), unit = repeated[0], unit_of(dataset)
    others = sum(row.label != earlier.label for row, earlier in repeated)
    return [
        f"{source_of(dataset)}: {len(repeated):,} of {len(dataset):,} {split} rows repeat the text of an "
        f"earlier row{f', {others:,} of them with another label' if others else ''}; "
        f"the first is {unit} {row.number}, which repeats {unit} {earlier.number}"
    ]


def _overlap(
    split: str, dataset: Dataset, rows: list[_Row], trained: Mapping[bytes, _Row], train: Dataset
) -> list[str]:
    both = [row for row in rows if row.texts in trained]
    if not both:
        return []
    return [
        f"{source_of(dataset)}: {len(both):,} of {len(dataset):,} {split} rows are in the training data too; "
        f"the first is {unit_of(dataset)} {both[0].number}, which is {unit_of(train)} "
        f"{trained[both[0].texts].number} of {source_of(train)}"
    ]
