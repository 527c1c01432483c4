"""Text files as numbered rows, not yet checked: JSONL, CSV, TSV and one text per line, each also gzip.

By the standard library: pyarrow counts rows, not lines, and reads some broken rows silently (`docs/dependencies.md`).
"""

import csv
import gzip
import json
import os
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from powerbert.errors import DataError
from powerbert.folders.manifest import unique_keys
from powerbert.tasks.task import Task

EXTENSIONS = ".jsonl, .csv, .tsv, .txt (each also .gz) or .parquet"

_Fields = list[str] | dict[str, object]


class RawRow(NamedTuple):
    """One row as it was read."""

    number: int  # the line of a text file where the row starts, else the row, from 1
    values: Mapping[str, object]
    place: str  # names the file and the row

    def error(self, what: str, got: object, rule: str = "", remedy: str = "") -> DataError:
        """What is wrong with this row."""
        return DataError(f"{self.place}: {what}", got=got, rule=rule, remedy=remedy)


@dataclass
class Source:
    """The rows of one split; they are read while they are iterated over."""

    name: str
    rows: Iterator[RawRow] = field(default_factory=lambda: iter(()))
    unit: str = "line"
    columns: tuple[str, ...] = ()  # that exist; if there are none, those of the first row
    format: str = ""
    label_names: tuple[str, ...] | None = None  # class names that the source itself declares, in order
    left_out: dict[str, list[int]] = field(default_factory=dict)  # what kind of row was skipped -> their numbers
    remarks: list[str] = field(default_factory=list)

    def skip(self, what: str, *numbers: int) -> None:
        """Count rows that are left out."""
        if numbers:
            self.left_out.setdefault(what, []).extend(numbers)

    @property
    def notes(self) -> tuple[str, ...]:
        """One line per kind of row that was left out, and other remarks; complete once all rows are read."""
        first = f"skipped, the first at {self.unit}"
        skipped = (f"{len(found):,} {what} {first} {found[0]:,}" for what, found in self.left_out.items())
        return (*skipped, *self.remarks)


def text_source(path: Path, task: Task, form: str) -> Source:
    """Open a text file as jsonl, csv, tsv or txt, whatever its name."""
    columns = ("text", "text_pair")[: 1 + task.is_pair] if form == "txt" else ()
    source = Source(str(path), columns=columns, format=form)
    source.rows = _parsed(path, task, source)
    return source


def file_format(path: Path) -> str:
    """Return jsonl, csv, tsv, txt or parquet by the extension of a file that exists."""
    if not os.path.isfile(path):  # Path.is_file raises: a name that is too long, a forbidden folder
        raise DataError(f"{path} is not a file", remedy="check the path")
    name = path.name.lower()
    form = Path(name.removesuffix(".gz")).suffix[1:]
    form = "jsonl" if form in ("json", "ndjson") else form
    if form not in ("jsonl", "csv", "tsv", "txt", "parquet") or (form == "parquet" and name.endswith(".gz")):
        raise DataError(f"{path} has an unknown extension", rule=f"files are {EXTENSIONS}")
    return form


def has_pairs(path: Path) -> bool:
    """Whether a plain text file holds pairs: its first text has a tab."""
    return next(("\t" in line for _, line in read_lines(path) if line.strip()), False)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line with its line end); UTF-8, a leading BOM is dropped.

    Lines end at a newline only: str.splitlines would also cut at U+0085, which IMDB reviews contain.
    """
    number, zipped = 0, path.suffix.lower() == ".gz"
    try:
        with path.open("rb") as stream:
            start = stream.read(2)
            stream.seek(0)
            if zipped and not start:
                raise DataError(f"{path} is empty", rule="a split has at least one row")
            if (start == b"\x1f\x8b") != zipped:
                rule = "a file whose name ends in .gz is gzip, and no other"
                raise DataError(f"{path} is {'not ' * zipped}a gzip file", rule=rule, remedy="rename it")
            for number, raw in enumerate(gzip.GzipFile(fileobj=stream) if zipped else stream, 1):
                yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        got = error.object[error.start : error.start + 8]
        raise DataError(f"{path}, line {number}: not UTF-8 text", got=got, remedy="save the file as UTF-8") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        what = f"{path}: the gzip file is damaged after line {number}"
        raise DataError(what, got=str(error), remedy="copy it again") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read", got=error.strerror or str(error)) from error


def _parsed(path: Path, task: Task, source: Source) -> Iterator[RawRow]:
    """The rows of any text format, under the columns of its header; blank lines are left out."""
    header, form, quoted, blanks = source.columns, source.format, [], []  # blanks at the end are not worth a remark
    for number, fields in _csv_fields(path) if form == "csv" else _line_fields(path, form):
        if fields is None:
            blanks.append(number)
            continue
        source.skip("blank lines", *blanks)
        blanks, place = [], f"{path}, line {number}"
        if not isinstance(fields, dict):
            if not header:
                header = _header(fields, task, place)
                if header == tuple(fields):
                    continue
            if len(fields) != len(header) and form == "tsv" and task.skip_incomplete:
                source.skip("rows with missing fields", number)
                continue
            if form == "tsv" and any(text[:1] == '"' == text[-1:] and '""' in text[1:-1] for text in fields):
                quoted.append(number)
            fields = _named(header, fields, place, form)
        yield RawRow(number, fields, place)
    if quoted:
        source.remarks.append(
            f"{len(quoted):,} rows look quoted, the first at line {quoted[0]:,}, "
            "but a .tsv file is read without quoting; use .csv for quoted fields"
        )


def _line_fields(path: Path, form: str) -> Iterator[tuple[int, _Fields | None]]:
    """One JSON object per line, or fields between tabs without quoting, as GLUE's files are."""
    for number, line in read_lines(path):
        text = line.rstrip("\r\n")
        if not (text if form == "tsv" else text.strip()):
            yield number, None
        else:
            yield number, _object(text, f"{path}, line {number}") if form == "jsonl" else text.split("\t")


def _csv_fields(path: Path) -> Iterator[tuple[int, _Fields | None]]:
    """Fields with commas, quotes or newlines are quoted (RFC 4180); the number is that of the row's first line."""
    # strict: an unclosed quote is an error instead of swallowing the rest of the file.
    rows = csv.reader((line for _, line in read_lines(path)), strict=True)
    while True:
        start = rows.line_num + 1
        # csv's limit of 131,072 characters per field is the process's own: lifted for one row only.
        limit = csv.field_size_limit(sys.maxsize)
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            rule = "a field with a quote, comma or newline is quoted and its quotes are doubled"
            raise DataError(f"{path}, line {start}: the CSV row is broken", got=str(error), rule=rule) from error
        finally:
            csv.field_size_limit(limit)
        yield start, row or None


def _object(line: str, place: str) -> dict[str, object]:
    try:
        value = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        # json counts lines within the line: "line 1" there would contradict the line we name.
        got = f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
        rule = "a .jsonl file has one JSON object per line"
        raise DataError(f"{place}: the JSON is broken", got=got, rule=rule) from error
    if not isinstance(value, dict):
        rule = 'a row is an object such as {"text": "...", "label": 1}'
        raise DataError(f"{place}: the JSON is not an object", got=value, rule=rule)
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)  # made once: json.loads would make one per line


def _header(fields: list[str], task: Task, place: str) -> tuple[str, ...]:
    """The columns that the first line names, or those of a file whose first line is already a row."""
    known = {name for names in task.columns.values() for name in names}
    if len(fields) == len(task.headerless) and not known & set(fields):
        return task.headerless
    if twice := sorted({name for name in fields if fields.count(name) > 1}):
        raise DataError(f"{place}: the header names a column twice", got=twice)
    return tuple(fields)


def _named(header: tuple[str, ...], fields: list[str], place: str, form: str) -> dict[str, object]:
    if len(fields) == len(header):
        return dict(zip(header, fields, strict=True))
    if form == "txt":
        what = "two texts with one tab between them" if len(header) > 1 else "one text without a tab"
        got, remedy = f"{len(fields) - 1} tabs", "use .jsonl for texts that hold a tab"
        raise DataError(f"{place}: the line is not {what}", got=got, remedy=remedy)
    remedy = "a .tsv field holds no tab or newline; use .csv with quoted fields"
    remedy = "quote fields that contain the separator" if form == "csv" else remedy
    what, rule = f"{place}: the {form.upper()} row is ragged", f"the header has {len(header)} columns"
    raise DataError(what, got=f"{len(fields)} fields", rule=rule, remedy=remedy)
