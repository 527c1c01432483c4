"""What is looked at before training: each split as a whole and against the training data."""

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
    spread: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)  # least, mean and greatest number
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
    trained: dict[bytes, _Row] = {}
    for name in sorted(splits, key=lambda name: name != "train"):  # the training set first
        split, train, rows = splits[name], splits.get("train", splits[name]), _rows(splits[name], task)
        first = {row.texts: row for row in reversed(rows)}
        warnings += _shared(name, split, rows, first, split) + _shared(name, split, rows, trained, train)
        trained = first if name == "train" else trained
    notes = tuple(f"{name}: {note}" for name, split in splits.items() for note in split.notes)
    return Findings({name: len(split) for name, split in splits.items()}, labels, spread, tuple(warnings), notes)


def _one_label(name: str, split: Split, only: object, kinds: str) -> str:
    """Refuse a training set with nothing to learn; a warning for any other split."""
    first = f"{split.unit} {split.dataset['row'][0]}"
    what = f"{split.source}: all {len(split):,} rows from {first} on are labelled {only!r}"
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


def _shared(name: str, split: Split, rows: list[_Row], known: Mapping[bytes, _Row], home: Split) -> list[str]:
    """A line about the rows whose text a known row of `home`, this split or the training set, has too."""
    pairs = [(row, known[row.texts]) for row in rows if known.get(row.texts, row) is not row]
    if not pairs:
        return []
    others = sum(row.label not in (None, other.label) for row, other in pairs)
    what, which, end = "are in the training data too", "is", f" of {home.source}"
    if home is split:
        what, which, end = "repeat the text of an earlier row", "repeats", ""
    what += f", {others:,} of them with another label" if others else ""
    numbers = f"{split.unit} {pairs[0][0].number}, which {which} {home.unit} {pairs[0][1].number}{end}"
    return [f"{split.source}: {len(pairs):,} of {len(split):,} {name} rows {what}; the first is {numbers}"]
