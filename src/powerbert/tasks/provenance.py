"""Where the rows of a dataset came from: one line for the source, one per remark, kept with the rows.

`datasets` carries a description through select, shuffle and map, so it needs no wrapper of ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from datasets import Dataset

MARK = "powerbert: "


def describe(dataset: Dataset, source: str, unit: str, notes: Iterable[str] = ()) -> Dataset:
    """Write the source, its unit (line or row) and remarks into the dataset, in place, and return it."""
    lines = [f"{MARK}{unit} of {source}", *notes]
    dataset.info.description = "\n".join(line.replace("\n", " ") for line in lines)
    return dataset


def source_of(dataset: Dataset) -> str:
    """The file, folder or name that the rows were read from."""
    return _first(dataset)[1]


def unit_of(dataset: Dataset) -> str:
    """What the numbers in column `row` count: "line" or "row"."""
    return _first(dataset)[0]


def notes_of(dataset: Dataset) -> tuple[str, ...]:
    """Remarks on the rows, such as blank lines that were skipped or the part that was taken."""
    description = dataset.info.description or ""
    return tuple(description.split("\n")[1:]) if description.startswith(MARK) else ()


def _first(dataset: Dataset) -> tuple[str, str]:
    first = (dataset.info.description or "").split("\n")[0]
    if not first.startswith(MARK):
        return "row", "the dataset"
    unit, _, source = first.removeprefix(MARK).partition(" of ")
    return unit, source
