"""Rows out: JSON lines, CSV, TSV and Parquet, a window at a time, and the windows joined to one file.

What a window becomes depends on the windows before it by one thing alone, the columns of the first. They can be read
off what was written of that, so a stopped run needs to remember nothing else.
"""

import csv
import gzip
import io
import json
import math
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import chain, groupby
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import pyarrow
from pyarrow import parquet

from powerbert.errors import DataError, one_line
from powerbert.scoring.rows import ArrowRow
from powerbert.tasks.files import RawRow

Scored = Sequence[tuple[RawRow, Mapping[str, Any]]]  # rows, and what is added to each

_QUOTED = re.compile('[",\r\n]')
_NEVER_IN_TSV = re.compile("[\t\r\n]")
_AS_JSONL, _AS_PARQUET = "write to a name that ends in .jsonl", "write to a name that ends in .parquet"


class Form(ABC):
    """A format: windows of rows become bytes, which are joined at the end."""

    def __init__(self, added: Mapping[str, type]) -> None:
        self.added = added
        self.columns: tuple[str, ...] | None = None  # those of the rows, from the first window on

    @abstractmethod
    def encode(self, rows: Scored) -> bytes:
        """The bytes of a window that has rows; of the first one with a header."""

    @abstractmethod
    def resume(self, first: Path) -> None:
        """Read off the first window that was written what the others depend on."""

    def join(self, parts: Sequence[Path], target: Path) -> None:
        """Write the windows as one file, packed as its name says."""
        with _packed(target) as sink:
            for part in parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, sink, 1 << 20)

    def _settle(self, rows: Scored) -> tuple[bool, tuple[str, ...]]:
        """Whether this is the first window, and the columns that it gave; a later row has no others."""
        first = self.columns is None
        if self.columns is None:
            self.columns = tuple(dict.fromkeys(name for raw, _ in rows for name in raw.values))
        known = set(self.columns)
        for raw, _ in rows:
            if not raw.values.keys() <= known:
                new = next(name for name in raw.values if name not in known)
                rule = (
                    f"the columns are those of the first rows: {', '.join(self.columns[:20]) or 'none could be read'}"
                )
                raise DataError(f"{raw.place}: there is a new column {new!r}", rule=rule, remedy=_AS_JSONL)
        return first, self.columns


class JsonLines(Form):
    """A JSON object per line."""

    def encode(self, rows: Scored) -> bytes:
        """A line for each row."""
        return b"".join(_json_line(raw, added) for raw, added in rows)

    def resume(self, first: Path) -> None:
        """Every line says its columns itself."""


class Separated(Form):
    """CSV: a field with a comma, a quote or a line end is quoted."""

    separator: ClassVar[str] = ","

    def encode(self, rows: Scored) -> bytes:
        """A line for each row, after a header."""
        first, columns = self._settle(rows)
        lines = [self._line(rows[0][0], (*columns, *self.added))] if first else []
        lines += [self._line(raw, chain(map(raw.values.get, columns), added.values())) for raw, added in rows]
        return b"".join(lines)

    def _line(self, raw: RawRow, cells: Iterable[object]) -> bytes:
        """The cells are fetched here: a value of Parquet may be none of Python's."""
        remedy = _AS_PARQUET if isinstance(raw.values, ArrowRow) else _AS_JSONL
        with one_line(f"{raw.place}: the row cannot be written", remedy, DataError):
            return f"{self.separator.join(self.field(_cell(cell)) for cell in cells)}\n".encode()

    def field(self, text: str) -> str:
        """A value as it stands between separators."""
        return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text

    def resume(self, first: Path) -> None:
        """The header has the columns of the rows, then the added ones."""
        with first.open(encoding="utf-8", newline="") as lines:
            self.columns = tuple(self.fields(lines)[: -len(self.added)])

    def fields(self, lines: Any) -> list[str]:
        """The first row of a file."""
        return next(csv.reader(lines))


class TabSeparated(Separated):
    """TSV as this project reads it: nothing is quoted, so no field has a tab or a line end."""

    separator = "\t"

    def field(self, text: str) -> str:
        """A value as it stands between tabs."""
        if _NEVER_IN_TSV.search(text):
            raise ValueError("a TSV field holds no tab or line end")
        return text

    def fields(self, lines: Any) -> list[str]:
        """The first row of a file."""
        return next(lines).rstrip("\n").split("\t")


class ParquetForm(Form):
    """Parquet: columns of Parquet keep their types, those of text files have the types of the first window."""

    schema: Any = None

    def encode(self, rows: Scored) -> bytes:
        """A Parquet file of its own."""
        added = {
            name: pyarrow.array([values[name] for _, values in rows], _ARROW_TYPES[kind])
            for name, kind in self.added.items()
        }
        with one_line(f"{rows[0][0].place}: the rows cannot be written as Parquet", _AS_JSONL, DataError):
            if isinstance(rows[0][0].values, ArrowRow):
                table = _beside(_arrow_table(rows), added)
            else:
                table = pyarrow.table(self._typed(rows) | added)  # at once: rows may have no column of their own
        if self.schema is not None and not table.schema.equals(self.schema):
            rule = f"the columns are those of the first rows: {', '.join(self.schema.names[:20])}"
            raise DataError(f"{rows[0][0].place}: the columns have other types", rule=rule, remedy=_AS_JSONL)
        self.schema, sink = table.schema, io.BytesIO()
        parquet.write_table(table, sink)
        return sink.getvalue()

    def _typed(self, rows: Scored) -> dict[str, Any]:
        """Values of a text file as columns: lists and objects of JSON become JSON text."""
        _, columns = self._settle(rows)
        made = {}
        for name in columns:
            values = [_flat(raw.values.get(name)) for raw, _ in rows]
            kind = None if self.schema is None else self.schema.field(name).type
            with one_line(f"{rows[0][0].place}: column {name!r} is of no one type of Parquet", _AS_JSONL, DataError):
                made[name] = _of_type(pyarrow.array(values), kind)
        return made

    def resume(self, first: Path) -> None:
        """The schema is that of the first window."""
        self.schema = parquet.read_schema(first)
        self.columns = tuple(self.schema.names[: -len(self.added)])

    def join(self, parts: Sequence[Path], target: Path) -> None:
        """Each window becomes a row group."""
        with parquet.ParquetWriter(target, parquet.read_schema(parts[0])) as writer:
            for part in parts:
                writer.write_table(parquet.read_table(part))


FORMS: dict[str, type[Form]] = {"jsonl": JsonLines, "csv": Separated, "tsv": TabSeparated, "parquet": ParquetForm}
_ARROW_TYPES = {str: pyarrow.string(), float: pyarrow.float64()}


@contextmanager
def _packed(target: Path) -> Iterator[BinaryIO]:
    """A file that is written, packed as its name says; the same content always gives the same bytes."""
    suffix = target.suffix.lower()
    with target.open("wb") as file:
        if suffix == ".gz":
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as sink:
                yield sink  # type: ignore[misc]
        elif suffix == ".zst":
            with pyarrow.CompressedOutputStream(pyarrow.PythonFile(file, "w"), "zstd") as sink:
                yield sink
        else:
            yield file


def _arrow_table(rows: Scored) -> Any:
    """The rows of Arrow batches as a table, without a way through Python's types."""
    values: list[Any] = [raw.values for raw, _ in rows]  # all of them `ArrowRow`: a run reads one format
    groups = (list(group) for _, group in groupby(values, key=lambda row: id(row.batch)))
    batches = [part for group in groups for part in _slices(group)]
    with one_line(f"{rows[-1][0].place}: the columns are not those of the rows before", _AS_JSONL, DataError):
        return pyarrow.Table.from_batches(batches).combine_chunks()


def _slices(rows: list[ArrowRow]) -> Iterator[Any]:
    """Rows of one batch as slices of it, which any type has; Arrow cannot take single rows of every type."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or rows[end].index != rows[end - 1].index + 1:
            yield rows[start].batch.slice(rows[start].index, end - start)
            start = end


def _of_type(array: Any, kind: Any) -> Any:
    """A column in the type of the first window, if that changes no value: Arrow itself would cut 3.75 to 3."""
    kind = kind or (pyarrow.string() if pyarrow.types.is_null(array.type) else array.type)
    numbers = all(pyarrow.types.is_integer(each) or pyarrow.types.is_floating(each) for each in (array.type, kind))
    if not (numbers or array.type == kind or pyarrow.types.is_null(array.type)):
        raise TypeError(f"{array.type} where the first rows have {kind}")
    return array.cast(kind)


def _beside(table: Any, added: Mapping[str, Any]) -> Any:
    """A table with columns added, which keeps what its own schema says."""
    for name, column in added.items():
        table = table.append_column(name, column)
    return table


def _json_line(raw: RawRow, added: Mapping[str, Any]) -> bytes:
    with one_line(f"{raw.place}: the row cannot be written as JSON", _AS_PARQUET, DataError):
        row = {**raw.values, **added}  # here: a value of Parquet may be none of Python's
        try:
            return f"{json.dumps(row, ensure_ascii=False, allow_nan=False, default=_plain)}\n".encode()
        except UnicodeEncodeError:  # half of a character, which JSON can spell
            return f"{json.dumps(row, allow_nan=False, default=_plain)}\n".encode()
        except ValueError:  # NaN of a Parquet column, which JSON cannot
            return f"{json.dumps(_finite(row), ensure_ascii=False, default=_plain)}\n".encode()


def _finite(value: Any) -> Any:
    """A value with null in the place of NaN and the infinities."""
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: object) -> str:
    """What Parquet has and JSON has not, as text."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__}")


def _flat(value: Any) -> Any:
    """A value for a column of one type; lists and objects are JSON text."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _cell(value: Any) -> str:
    """A value as a field of text: nothing for none, JSON for what is not text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return repr(value)  # as JSON has it, and most cells that are not text are numbers
    if isinstance(value, date | time | Decimal | timedelta):
        return _plain(value)
    return json.dumps(value, ensure_ascii=False, default=_plain)
