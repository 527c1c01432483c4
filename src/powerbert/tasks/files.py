"""Text files as numbered records, not yet checked: JSONL, CSV, TSV and one text per line, each also gzip.

They are parsed with the standard library, because pyarrow's readers count rows and not lines, and
read some broken rows without a word (`docs/dependencies.md`).
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from powerbert.errors import DataError
from powerbert.tasks.task import Task

FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "txt",
    ".parquet": "parquet",
}
EXTENSIONS = ".jsonl, .csv, .tsv, .txt (each also .gz) or .parquet"
GZIP = b"\x1f\x8b"

_Item = TypeVar("_Item")


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
    records: Iterator[Record] = field(default_factory=lambda: iter(()))
    unit: str = "line"
    columns: tuple[str, ...] | None = None
    """The columns that exist; None means those of the first record."""
    format: str = ""
    label_names: tuple[str, ...] | None = None
    """Class names that the source itself declares, in order."""
    left_out: dict[str, list[int]] = field(default_factory=dict)
    """What kind of row was skipped -> their numbers; complete once all records are read, as `remarks`."""
    remarks: list[str] = field(default_factory=list)

    def place(self, record: Record) -> str:
        """Name the file and the row, as the start of a message."""
        return record.place or f"{self.name}, {self.unit} {record.number}"

    def skip(self, what: str, numbers: Iterable[int]) -> None:
        """Count rows that are left out."""
        if numbers := list(numbers):
            self.left_out.setdefault(what, []).extend(numbers)

    @property
    def notes(self) -> tuple[str, ...]:
        """One line per kind of row that was left out, and other remarks."""
        skipped = (
            f"{len(numbers):,} {what} skipped, the first at {self.unit} {numbers[0]:,}"
            for what, numbers in self.left_out.items()
        )
        return (*skipped, *self.remarks)


def text_source(path: Path, task: Task, form: str) -> Source:
    """Open a text file as jsonl, csv, tsv or txt, whatever its name."""
    source = Source(str(path), format=form)
    source.records = PARSERS[form](path, task, source)
    if form == "txt":
        source.columns = ("text", "text_pair") if task.is_pair else ("text",)
    return source


def file_format(path: Path) -> str:
    """Return jsonl, csv, tsv, txt or parquet by the extension of a file that exists."""
    # os.path answers False where Path.is_file raises: a name that is too long, a forbidden folder.
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder", rule="a split is one file", remedy="name the file in it")
    if not os.path.isfile(path):
        raise DataError(f"{path} is not a file", remedy="check the path")
    name = path.name.lower()
    form = FORMATS.get(Path(name.removesuffix(".gz")).suffix)
    if form is None or (form == "parquet" and name.endswith(".gz")):
        raise DataError(f"{path} has an unknown extension", rule=f"files are {EXTENSIONS}")
    return form


def has_pairs(path: Path) -> bool:
    """Whether a plain text file holds pairs: its first text has a tab."""
    return next(("\t" in line for _, line in read_lines(path) if line.strip()), False)


# ---- lines ---------------------------------------------------------------------------------


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line with its line end); UTF-8, a leading BOM is dropped.

    Lines end at a newline only: str.splitlines would also cut at U+0085, which IMDB reviews contain.
    """
    number = 0
    try:
        with _opened(path) as stream:
            for number, raw in enumerate(stream, 1):
                yield number, _decoded(raw, path, number)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}: the gzip file is damaged after line {number}", got=str(error), remedy="copy it again"
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read", got=error.strerror or str(error)) from error


def _opened(path: Path) -> gzip.GzipFile | io.BufferedReader:
    """Open for reading, decompressed if the name says gzip; the name and the content must agree."""
    with path.open("rb") as stream:
        start = stream.read(2)
    zipped = path.suffix.lower() == ".gz"
    if zipped and not start:
        raise DataError(f"{path} is empty", rule="a split has at least one row")
    if (start == GZIP) != zipped:
        raise DataError(
            f"{path} is {'not ' if zipped else ''}a gzip file",
            rule="a file whose name ends in .gz is gzip, and no other",
            remedy="rename it",
        )
    return gzip.open(path) if zipped else path.open("rb")


def _decoded(raw: bytes, path: Path, number: int) -> str:
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {number}: not UTF-8 text",
            got=raw[error.start : error.start + 8],
            remedy="save the file as UTF-8",
        ) from error


def _filled(
    items: Iterable[tuple[int, _Item]], source: Source, filled: Callable[[_Item], object]
) -> Iterator[tuple[int, _Item]]:
    """Leave out blank lines; those at the end are not worth a remark."""
    blanks: list[int] = []
    for number, item in items:
        if not filled(item):
            blanks.append(number)
            continue
        source.skip("blank lines", blanks)
        blanks = []
        yield number, item


# ---- text formats --------------------------------------------------------------------------


def _jsonl(path: Path, task: Task, source: Source) -> Iterator[Record]:
    """One JSON object per line."""
    for number, line in _filled(read_lines(path), source, str.strip):
        yield Record(number, _object(line, f"{path}, line {number}"))


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
        rule = 'a row is an object such as {"text": "...", "label": 1}'
        raise DataError(f"{place}: the JSON is not an object", got=value, rule=rule)
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) != len(pairs):  # json would silently keep the last
        raise ValueError("a key appears twice")
    return values


DECODER = json.JSONDecoder(object_pairs_hook=_unique)  # made once: json.loads would make one per line


def _csv(path: Path, task: Task, source: Source) -> Iterator[Record]:
    """Comma-separated with a header; fields with commas, quotes or newlines are quoted (RFC 4180)."""
    header: tuple[str, ...] = ()
    remedy = "quote fields that contain the separator"
    for number, row in _filled(_csv_rows(path), source, len):
        if not header:
            header = _header(row, path)
            continue
        yield Record(number, _fields(header, row, f"{path}, line {number}: the CSV row", remedy))


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line where it starts; a quoted field may span lines."""
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
            raise DataError(
                f"{path}, line {start}: the CSV row is broken",
                got=str(error),
                rule="a field with a quote, comma or newline is quoted and its quotes are doubled",
            ) from error
        finally:
            csv.field_size_limit(limit)
        yield start, row


def _tsv(path: Path, task: Task, source: Source) -> Iterator[Record]:
    """Tab-separated with a header and no quoting, as GLUE's files are: a quote is just a character."""
    header: tuple[str, ...] = ()
    quoted: list[int] = []
    remedy = "a .tsv field holds no tab or newline; use .csv with quoted fields"
    lines = ((number, line.rstrip("\r\n").split("\t")) for number, line in read_lines(path))
    for number, row in _filled(lines, source, [""].__ne__):
        if not header:
            header = _headerless(row, task)
            if not header:
                header = _header(row, path)
                continue
        if len(row) != len(header) and task.skip_incomplete:
            source.skip("rows with missing fields", [number])
            continue
        if any(text[:1] == '"' == text[-1:] and '""' in text[1:-1] for text in row):
            quoted.append(number)
        yield Record(number, _fields(header, row, f"{path}, line {number}: the TSV row", remedy))
    if quoted:
        source.remarks.append(
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


def _fields(header: tuple[str, ...], row: list[str], what: str, remedy: str) -> dict[str, object]:
    if len(row) != len(header):
        rule = f"the header has {len(header)} columns"
        raise DataError(f"{what} is ragged", got=f"{len(row)} fields", rule=rule, remedy=remedy)
    return dict(zip(header, row, strict=True))


def _txt(path: Path, task: Task, source: Source) -> Iterator[Record]:
    """One text per line; a tab separates the two texts of a pair."""
    roles, remedy = ("text", "text_pair")[: 1 + task.is_pair], "use .jsonl for texts that hold a tab"
    for number, line in _filled(read_lines(path), source, str.strip):
        texts = line.rstrip("\r\n").split("\t")
        if len(texts) != len(roles):
            what = "two texts with one tab between them" if task.is_pair else "one text without a tab"
            place, got = f"{path}, line {number}", f"{len(texts) - 1} tabs"
            raise DataError(f"{place}: the line is not {what}", got=got, remedy=remedy)
        yield Record(number, dict(zip(roles, texts, strict=True)))


PARSERS = {"jsonl": _jsonl, "csv": _csv, "tsv": _tsv, "txt": _txt}
