"""JSONL, CSV, TSV, Parquet and `datasets` objects as sources.

These files are parsed here rather than by `datasets.load_dataset`, whose errors name no row and which
copies every local file into a cache in the user's home.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, Features

from powerbert.errors import DataError
from powerbert.tasks.files import file_format, read_lines
from powerbert.tasks.provenance import source_of
from powerbert.tasks.source import Record, Source, skipped
from powerbert.tasks.task import Task

BATCH = 1000


def file_source(path: Path, task: Task) -> Source:
    """Open one file by its extension."""
    match file_format(path):
        case "jsonl":
            return jsonl_source(path)
        case "csv":
            return csv_source(path)
        case "tsv":
            return tsv_source(path, task)
        case _:
            return parquet_source(path, task)


# ---- JSON lines --------------------------------------------------------------------------


def jsonl_source(path: Path) -> Source:
    """One JSON object per line; blank lines are skipped."""
    notes: list[str] = []
    return Source(str(path), _jsonl_records(path, notes), notes, self_describing=True)


def _jsonl_records(path: Path, notes: list[str]) -> Iterator[Record]:
    blanks, last = [], 0
    for number, line in read_lines(path):
        if not line.strip():
            blanks.append(number)
            continue
        last = number
        yield Record(number, _object(line, f"{path}, line {number}"))
    notes += skipped([number for number in blanks if number < last], "blank lines")


def _object(line: str, place: str) -> dict[str, object]:
    try:
        value = DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        # json counts lines within the line: "line 1" there would contradict the line we name.
        got = str(error)
        if isinstance(error, json.JSONDecodeError):
            got = f"{error.msg} at character {error.pos + 1}"
        rule = "a .jsonl file has one JSON object per line"
        raise DataError(f"{place}: the JSON is broken", got=got, rule=rule) from error
    if not isinstance(value, dict):
        raise DataError(
            f"{place}: the JSON is not an object",
            got=value,
            rule='a row is an object such as {"text": "...", "label": 1}',
        )
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) != len(pairs):  # json would silently keep the last
        raise ValueError("a key appears twice")
    return values


DECODER = json.JSONDecoder(object_pairs_hook=_unique)  # made once: json.loads would make one per line


# ---- CSV and TSV -------------------------------------------------------------------------


def csv_source(path: Path) -> Source:
    """Comma-separated with a header; fields with commas, quotes or newlines are quoted (RFC 4180)."""
    notes: list[str] = []
    return Source(str(path), _csv_records(path, notes), notes)


def _csv_records(path: Path, notes: list[str]) -> Iterator[Record]:
    blanks, last, header = [], 0, None
    for number, row in _csv_rows(path):
        if not row:
            blanks.append(number)
        elif header is None:
            header = _header(row, path)
        else:
            last = number
            yield Record(number, _fields(header, row, f"{path}, line {number}", "CSV"))
    notes += skipped([number for number in blanks if number < last], "blank lines")


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line where it starts; a quoted field may span lines."""
    # strict: an unclosed quote is an error instead of swallowing the rest of the file.
    rows = csv.reader((line for _, line in read_lines(path)), strict=True)
    while True:
        start = rows.line_num + 1
        try:
            with _any_field_size():
                row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"{path}, line {start}: the CSV row is broken",
                got=str(error),
                rule="a field with a quote, comma or newline is quoted and its quotes are doubled",
            ) from error
        yield start, row


@contextmanager
def _any_field_size() -> Iterator[None]:
    """Lift csv's process-wide limit of 131,072 characters per field for one row only."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def tsv_source(path: Path, task: Task) -> Source:
    """Tab-separated with a header and no quoting, as GLUE's files are: a quote is just a character."""
    notes: list[str] = []
    return Source(str(path), _tsv_records(path, task, notes), notes)


def _tsv_records(path: Path, task: Task, notes: list[str]) -> Iterator[Record]:
    blanks, ragged, quoted, last, header = [], [], [], 0, None
    for number, line in read_lines(path):
        row = line.rstrip("\r\n").split("\t")
        if row == [""]:
            blanks.append(number)
            continue
        if header is None:
            header = _headerless(row, task)
            if not header:
                header = _header(row, path)
                continue
        last = number
        if len(row) != len(header) and task.skip_incomplete:
            ragged.append(number)
            continue
        if any(field[:1] == '"' == field[-1:] and '""' in field[1:-1] for field in row):
            quoted.append(number)
        yield Record(number, _fields(header, row, f"{path}, line {number}", "TSV"))
    notes += skipped([number for number in blanks if number < last], "blank lines")
    notes += skipped(ragged, "rows with missing fields")
    if quoted:
        notes.append(
            f"{len(quoted):,} rows look quoted, the first at line {quoted[0]:,}, "
            "but a .tsv file is read without quoting; use .csv for quoted fields"
        )


def _headerless(row: list[str], task: Task) -> tuple[str, ...]:
    """The columns of a file whose first line is already a row, else nothing."""
    known = {name for names in task.columns.values() for name in names}
    return task.headerless if len(row) == len(task.headerless) and not known & set(row) else ()


def _header(row: list[str], path: Path) -> tuple[str, ...]:
    twice = sorted({name for name in row if row.count(name) > 1})
    if twice:
        raise DataError(f"{path}, line 1: the header names a column twice", got=twice)
    return tuple(row)


def _fields(header: tuple[str, ...], row: list[str], place: str, kind: str) -> dict[str, object]:
    if len(row) != len(header):
        raise DataError(
            f"{place}: the {kind} row is ragged",
            got=f"{len(row)} fields",
            rule=f"the header has {len(header)} columns",
            remedy="quote fields that contain the separator"
            if kind == "CSV"
            else "a .tsv field holds no tab or newline; use .csv with quoted fields",
        )
    return dict(zip(header, row, strict=True))


# ---- Parquet and datasets ----------------------------------------------------------------


def parquet_source(path: Path, task: Task) -> Source:
    """Read the columns of a Parquet file that the task can use."""
    import pyarrow
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        names = tuple(file.schema_arrow.names)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(
            f"{path} is not a Parquet file", got=str(error), remedy="write it again, or use .jsonl"
        ) from error

    def rows() -> Iterator[Mapping[str, object]]:
        try:
            for batch in file.iter_batches(batch_size=BATCH, columns=_usable(names, task)):
                yield from batch.to_pylist()
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(f"{path}: the Parquet file is damaged", got=str(error)) from error

    try:
        features: Mapping[str, Any] = Features.from_arrow_schema(file.schema_arrow)
    except (ValueError, NotImplementedError):  # an Arrow type that datasets does not know
        features = {}
    return _row_source(str(path), rows(), names, features, task)


def dataset_source(dataset: Any, task: Task, name: str = "") -> Source:
    """Read the columns of a `datasets.Dataset` that the task can use."""
    if not isinstance(dataset, Dataset):
        raise DataError(
            "a split is a path or a datasets.Dataset",
            got=type(dataset).__name__,
            remedy="pass one split, such as dataset['train']",
        )
    names = tuple(dataset.column_names)
    plain = dataset.with_format(None).select_columns(_usable(names, task))

    def rows() -> Iterator[Mapping[str, object]]:
        for batch in plain.iter(batch_size=BATCH):
            yield from (dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True))

    return _row_source(name or source_of(dataset), rows(), names, dataset.features, task)


def _usable(names: Sequence[str], task: Task) -> list[str]:
    accepted = {name for accepted in task.columns.values() for name in accepted} | set(task.label_columns)
    return [name for name in names if name in accepted]


def _row_source(
    name: str,
    rows: Iterator[Mapping[str, object]],
    columns: tuple[str, ...],
    features: Mapping[str, Any],
    task: Task,
) -> Source:
    """Number the rows from 1, and turn declared class indices into the names they stand for."""
    label = next((column for column in task.label_columns if column in columns), "")
    names = features[label].names if isinstance(features.get(label), ClassLabel) else None

    def named(values: Mapping[str, object]) -> Mapping[str, object]:
        index = values.get(label)
        if names is None or not isinstance(index, int):
            return values
        # -1 is how the hub marks a row without a label.
        return {**values, label: names[index] if 0 <= index < len(names) else None}

    records = (Record(number, named(values)) for number, values in enumerate(rows, 1))
    return Source(name, records, unit="row", columns=columns, label_names=names and tuple(names))
