"""What is looked at before training: every text, and each split as a whole and against the others."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from powerbert.errors import DataError
from powerbert.tasks.task import ROWS_AT_ONCE, Split, Task


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
                parts[10:] = [f"and {len(parts) - 10} more classes"]
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


def check_splits(splits: Mapping[str, Split], task: Task) -> Findings:
    """Look at whole splits: refuse a training set of one class, warn of repetitions and overlap.

    Rows are checked one by one already where they are read.
    """
    labels: dict[str, dict[str, int]] = {}
    spread: dict[str, Spread] = {}
    warnings: list[str] = []
    for name, split in splits.items():
        if "label" not in split.dataset.column_names:
            continue
        values = split.dataset["label"][:]  # at once; iterating over a column fetches row by row
        if task.kind == "regression":
            spread[name] = Spread(min(values), sum(values) / len(values), max(values))
        else:
            count, classes = Counter(values), split.dataset.features["label"].names
            labels[name] = {label: count[index] for index, label in enumerate(classes)}
        if len(set(values)) == 1:
            warnings.append(_one_label(name, split, task, labels.get(name)))
    seen = {name: _rows(split, task) for name, split in splits.items()}
    first = {name: {row.texts: row for row in reversed(rows)} for name, rows in seen.items()}
    for name in sorted(splits, key=lambda name: name != "train"):  # the training set first
        warnings += _repetitions(name, splits[name], seen[name], first[name])
        if name != "train" and "train" in splits:
            warnings += _overlap(name, splits[name], seen[name], first["train"], splits["train"])
    notes = tuple(f"{name}: {note}" for name, split in splits.items() for note in split.notes)
    counts = {name: len(split) for name, split in splits.items()}
    return Findings(counts, labels, spread, tuple(warnings), notes)


def _one_label(name: str, split: Split, task: Task, labels: Mapping[str, int] | None) -> str:
    """Refuse a training set with nothing to learn; a warning for any other split."""
    only = split.dataset["label"][0]
    if labels is not None:
        only = next(name for name, count in labels.items() if count)
    start = split.dataset["row"][0]
    what = f"{split.source}: all {len(split):,} rows from {split.unit} {start} on are labelled {only!r}"
    if name == "train":
        kinds = "values" if task.kind == "regression" else "classes"
        raise DataError(what, rule=f"training needs at least two {kinds}", remedy="check the label column")
    return f"{what}, so the metric on {name} says little"


class _Row(NamedTuple):
    texts: bytes  # a digest: RACE repeats its long articles
    number: int
    label: float | None


def _rows(split: Split, task: Task) -> list[_Row]:
    rows: list[_Row] = []
    for batch in split.dataset.iter(batch_size=ROWS_AT_ONCE):
        labels = batch.get("label") or [None] * len(batch["row"])
        texts = zip(*(batch[name] for name in task.columns), strict=True)
        for parts, number, label in zip(texts, batch["row"], labels, strict=True):
            flat = [part for text in parts for part in ([text] if isinstance(text, str) else text)]
            digest = hashlib.blake2b("\0".join(flat).encode(), digest_size=16).digest()
            rows.append(_Row(digest, number, label))
    return rows


def _repetitions(name: str, split: Split, rows: list[_Row], first: Mapping[bytes, _Row]) -> list[str]:
    repeated = [(row, first[row.texts]) for row in rows if first[row.texts] is not row]
    if not repeated:
        return []
    row, earlier = repeated[0]
    others = sum(row.label != earlier.label for row, earlier in repeated)
    return [
        f"{split.source}: {len(repeated):,} of {len(split):,} {name} rows repeat the text of an "
        f"earlier row{f', {others:,} of them with another label' if others else ''}; "
        f"the first is {split.unit} {row.number}, which repeats {split.unit} {earlier.number}"
    ]


def _overlap(name: str, split: Split, rows: list[_Row], trained: Mapping[bytes, _Row], train: Split) -> list[str]:
    both = [row for row in rows if row.texts in trained]
    if not both:
        return []
    return [
        f"{split.source}: {len(both):,} of {len(split):,} {name} rows are in the training data too; "
        f"the first is {split.unit} {both[0].number}, which is {train.unit} "
        f"{trained[both[0].texts].number} of {train.source}"
    ]
