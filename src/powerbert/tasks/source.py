"""What every reader produces: numbered records of one source, not yet checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Record(NamedTuple):
    """One row as it was read."""

    number: int
    """The line of a text file where the row starts, else the row, from 1."""
    values: Mapping[str, object]
    place: str = ""
    """Where the row is, if not simply that line of the source."""


@dataclass
class Source:
    """The records of one split; they are read while they are iterated over."""

    name: str
    records: Iterator[Record]
    notes: list[str] = field(default_factory=list)
    """Remarks of the reader, complete once all records are read."""
    unit: str = "line"
    columns: tuple[str, ...] | None = None
    """The columns that exist; None means those of the first record."""
    self_describing: bool = False
    """Whether every record names its own columns, as JSON does."""
    label_names: tuple[str, ...] | None = None
    """Class names that the source itself declares, in order."""

    def place(self, record: Record) -> str:
        """Name the file and the row, as the start of a message."""
        return record.place or f"{self.name}, {self.unit} {record.number}"


def skipped(numbers: list[int], what: str, unit: str = "line") -> list[str]:
    """A remark on rows that were left out, or none."""
    if not numbers:
        return []
    return [f"{len(numbers):,} {what} skipped, the first at {unit} {numbers[0]:,}"]
