"""What is looked at before training: each split as a whole and against the training data."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from powerbert.errors import DataError
from powerbert.tasks.task import ROWS_AT_ONCE, Split, Task


@dataclass(frozen=True)
class Findings:
    """What is worth telling a user about data that can be trained on, by the names of the splits."""

    rows: Mapping[str, int]
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # class name -> rows; not of a regression
    spread: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    """Least, mean and greatest label of a regression."""
    warnings: tuple[str, ...] = ()  # one line each, naming file and row
    notes: tuple[str, ...] = ()  # what the readers skipped and which part was taken, one line each

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


class _Row(NamedTuple):
    texts: bytes  # a digest: RACE repeats its long articles
    number: int
    label: float | None


def check_splits(splits: Mapping[str, Split], task: Task) -> Findings:
    """Refuse a training set of one class, warn of repetitions and overlap; rows are checked where they are read."""
    labels: dict[str, dict[str, int]] = {}
    spread: dict[str, tuple[float, float, float]] = {}
    warnings: list[str] = []
    for name, split in splits.items():
        if "label" not in split.dataset.column_names:
            continue
        values = split.dataset["label"][:]  # at once; iterating over a column fetches row by row
        only, count = values[0], Counter(values)
        if task.kind == "regression":
            spread[name] = min(values), sum(values) / len(values), max(values)
        else:
            classes = split.dataset.features["label"].names
            only, labels[name] = classes[only], {label: count[index] for index, label in enumerate(classes)}
        if len(count) == 1:
            warnings.append(_one_label(name, split, only, "values" if task.kind == "regression" else "classes"))
    rows = {name: _rows(split, task) for name, split in splits.items()}
    first = {name: {row.texts: row for row in reversed(rows[name])} for name in splits}
    for name in sorted(splits, key=lambda name: name != "train"):  # the training set first
        split = splits[name]
        again = [(row, first[name][row.texts]) for row in rows[name] if first[name][row.texts] is not row]
        others = sum(row.label != earlier.label for row, earlier in again)
        what = f"{name} rows repeat the text of an earlier row"
        what += f", {others:,} of them with another label" if others else ""
        warnings += _shared(split, again, what, f"repeats {split.unit}")
        if name != "train" and (train := splits.get("train")):
            both = [(row, first["train"][row.texts]) for row in rows[name] if row.texts in first["train"]]
            what, which = f"{name} rows are in the training data too", f"is {train.unit}"
            warnings += _shared(split, both, what, which, f" of {train.source}")
    notes = tuple(f"{name}: {note}" for name, split in splits.items() for note in split.notes)
    return Findings({name: len(rows[name]) for name in splits}, labels, spread, tuple(warnings), notes)


def _one_label(name: str, split: Split, only: object, kinds: str) -> str:
    """Refuse a training set with nothing to learn; a warning for any other split."""
    start = f"{split.unit} {split.dataset['row'][0]}"
    what = f"{split.source}: all {len(split):,} rows from {start} on are labelled {only!r}"
    if name == "train":
        raise DataError(what, rule=f"training needs at least two {kinds}", remedy="check the label column")
    return f"{what}, so the metric on {name} says little"


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


def _shared(split: Split, pairs: list[tuple[_Row, _Row]], what: str, which: str, end: str = "") -> list[str]:
    """A line about the rows whose text stands elsewhere too, if there are any."""
    return [
        f"{split.source}: {len(pairs):,} of {len(split):,} {what}; "
        f"the first is {split.unit} {row.number}, which {which} {other.number}{end}"
        for row, other in pairs[:1]
    ]
