"""Text files as numbered rows, not yet checked: JSONL, CSV, TSV and one text per line, each also gzip or zstd.

By the standard library: pyarrow counts rows, not lines, and reads some broken rows silently (`docs/dependencies.md`).
"""

import csv
import gzip
import io
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

import pyarrow

from powerbert.errors import DataError, ReadingError
from powerbert.folders.manifest import unique_keys
from powerbert.tasks.task import Task

EXTENSIONS = ".jsonl, .csv, .tsv, .txt (each also .gz or .zst) or .parquet"
PIPED = Path("/dev/stdin")  # standard input, under a name that can be opened
PACKED = {".gz": ("gzip", b"\x1f\x8b"), ".zst": ("zstd", b"\x28\xb5\x2f\xfd")}  # how such a file begins

LONGEST_FIELD = 1 << 24  # characters of CSV: a quote that is never closed must not read a whole file into memory

_Fields = list[str] | dict[str, object] | DataError
_Line = tuple[int, str, DataError | None]  # its number from 1, the line with its end, and why it is no text


class RawRow(NamedTuple):
    """One row as it was read."""

    number: int  # the line of a text file where the row starts, else the row, from 1
    values: Mapping[str, object]
    place: str  # names the file and the row
    size: int = 0  # characters, or bytes, of all its columns
    fault: DataError | None = None  # why it could not be read; the rows after it can be

    def sound(self) -> "RawRow":
        """This row; its fault is raised."""
        if self.fault is not None:
            raise self.fault
        return self

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


def text_source(path: Path, task: Task, form: str, *, finite: bool = False) -> Source:
    """Open a text file as jsonl, csv, tsv or txt, whatever its name.

    finite: a row of JSON with NaN or Infinity, which JSON does not know, is at fault.
    """
    columns = ("text", "text_pair")[: 1 + task.is_pair] if form == "txt" else ()
    source = Source(str(path), columns=columns, format=form)
    source.rows = _parsed(path, task, source, _FINITE if finite else _DECODER)
    return source


def file_format(path: Path) -> str:
    """Return jsonl, csv, tsv, txt or parquet by the extension of a file that exists."""
    if not os.path.isfile(path):  # Path.is_file raises: a name that is too long, a forbidden folder
        raise DataError(f"{path} is not a file", remedy="check the path")
    if (form := named_format(path.name)) is None:
        raise DataError(f"{path} has an unknown extension", rule=f"files are {EXTENSIONS}")
    return form


def named_format(name: str) -> str | None:
    """The format that a name stands for, whether there is such a file or not; None of an unknown one."""
    name = name.lower()
    packed = Path(name).suffix in PACKED
    form = Path(Path(name).stem if packed else name).suffix[1:]
    form = "jsonl" if form in ("json", "ndjson") else form
    return form if form in ("jsonl", "csv", "tsv", "txt", *(() if packed else ("parquet",))) else None


def has_pairs(path: Path) -> bool:
    """Whether a plain text file holds pairs: its first text has a tab."""
    return next(("\t" in line for _, line in read_lines(path) if line.strip()), False)


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked if its name says that it is packed; those of standard input, if they begin so."""
    suffix = path.suffix.lower()
    with path.open("rb") as stream:
        start = stream.peek(4)[:4]  # a pipe cannot go back
        begins = next((name for name, (_, magic) in PACKED.items() if start.startswith(magic)), "")
        if path != PIPED:
            if suffix in PACKED and not start:
                raise DataError(f"{path} is empty", rule="a split has at least one row")
            if begins != (suffix if suffix in PACKED else ""):
                is_not, name = (suffix in PACKED, suffix if suffix in PACKED else begins)
                rule = f"a file whose name ends in {name} is {PACKED[name][0]}, and no other"
                raise DataError(f"{path} is {'not ' * is_not}a {PACKED[name][0]} file", rule=rule, remedy="rename it")
        if begins == ".gz":
            yield gzip.GzipFile(fileobj=stream)  # type: ignore[misc]
        elif begins == ".zst":
            yield io.BufferedReader(pyarrow.CompressedInputStream(pyarrow.PythonFile(stream, "r"), "zstd"))
        else:
            yield stream


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line with its line end); UTF-8, a leading BOM is dropped.

    Lines end at a newline only: str.splitlines would also cut at U+0085, which IMDB reviews contain.
    """
    for number, line, fault in _lines(path):
        if fault is not None:
            raise fault
        yield number, line


def _lines(path: Path) -> Iterator[_Line]:
    """The lines of a file, also those that are no text, each with what is wrong with it."""
    number = 0
    try:
        with unpacked(path) as stream:
            for number, raw in enumerate(stream, 1):
                encoding = "utf-8-sig" if number == 1 else "utf-8"
                try:
                    line, fault = raw.decode(encoding), None
                except UnicodeDecodeError as error:
                    what, got = f"{path}, line {number}: not UTF-8 text", error.object[error.start : error.start + 8]
                    fault = DataError(what, got=got, remedy="save the file as UTF-8")
                    line = raw.decode(encoding, "replace")
                yield number, line, fault
    except (EOFError, zlib.error, OSError) as error:
        _unreadable(path, number, error)


def _unreadable(path: Path, number: int, error: Exception) -> NoReturn:
    """Refuse what the system, or an unpacker, could not read."""
    if isinstance(error, OSError) and error.errno is not None:
        remedy = "give the same command again once it can be"
        raise ReadingError(f"{path} cannot be read", got=error.strerror or str(error), remedy=remedy) from error
    kind = PACKED.get(path.suffix.lower(), ("packed",))[0]
    what = f"{path}: the {kind} file is damaged after line {number}"
    raise DataError(what, got=str(error), remedy="copy it again") from error


def _parsed(path: Path, task: Task, source: Source, decoder: json.JSONDecoder) -> Iterator[RawRow]:
    """The rows of any text format, under the columns of its header; blank lines are left out."""
    header, form, quoted, blanks = source.columns, source.format, [], []  # blanks at the end are not worth a remark
    for number, size, fields in _csv_fields(path) if form == "csv" else _line_fields(path, form, decoder):
        if fields is None:
            blanks.append(number)
            continue
        source.skip("blank lines", *blanks)
        blanks, cells, place = [], list[str](), f"{path}, line {number}"
        if isinstance(fields, DataError) and not header and form != "jsonl":
            raise fields  # without a header no row can be read
        if isinstance(fields, list):
            if not header:
                header = _header(fields, task, place)
                if header == tuple(fields):
                    continue
            if len(fields) != len(header) and form == "tsv" and task.skip_incomplete:
                source.skip("rows with missing fields", number)
                continue
            if form == "tsv" and any(text[:1] == '"' == text[-1:] and '""' in text[1:-1] for text in fields):
                quoted.append(number)
            cells, fields = fields, _named(header, fields, place, form)
        if isinstance(fields, DataError):  # all columns, with the cells that there are
            values: dict[str, object] = dict.fromkeys(header) | dict(zip(header, cells, strict=False))
            yield RawRow(number, values, place, size, fields)
        else:
            yield RawRow(number, fields, place, size)
    if quoted:
        source.remarks.append(
            f"{len(quoted):,} rows look quoted, the first at line {quoted[0]:,}, "
            "but a .tsv file is read without quoting; use .csv for quoted fields"
        )


def _line_fields(path: Path, form: str, decoder: json.JSONDecoder) -> Iterator[tuple[int, int, _Fields | None]]:
    """One JSON object per line, or fields between tabs without quoting, as GLUE's files are; with the line's size."""
    fields: _Fields | None
    for number, line, fault in _lines(path):
        text = line.rstrip("\r\n")
        if not (text if form == "tsv" else text.strip()):
            fields = None
        elif fault is not None:
            fields = fault
        elif form == "jsonl" and number == 1 and text.lstrip()[:1] == "[":
            rule, remedy = "a .jsonl file has one object per line", f"jq -c '.[]' {path.name} gives that"
            raise DataError(f"{path}, line 1: the file is a JSON array", rule=rule, remedy=remedy)
        else:
            fields = _object(text, f"{path}, line {number}", decoder) if form == "jsonl" else text.split("\t")
        yield number, len(line), fields


def _csv_fields(path: Path) -> Iterator[tuple[int, int, _Fields | None]]:
    """Fields with commas, quotes or newlines are quoted (RFC 4180); the number is that of the row's first line."""
    faults: list[DataError] = []  # of the lines of this row

    def lines() -> Iterator[str]:
        for _, line, fault in _lines(path):
            if fault is not None:
                faults.append(fault)
            yield line

    rows = csv.reader(lines(), strict=True)  # strict: an unclosed quote is an error, and swallows no rows
    while True:
        start = rows.line_num + 1
        # csv's limit of 131,072 characters per field is the process's own: raised for one row only.
        limit = csv.field_size_limit(LONGEST_FIELD)
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            rule = "a field with a quote, comma or newline is quoted and its quotes are doubled"
            raise DataError(f"{path}, line {start}: the CSV row is broken", got=str(error), rule=rule) from error
        finally:
            csv.field_size_limit(limit)
        fields: _Fields | None = faults[0] if faults else row or None
        faults.clear()
        yield start, sum(map(len, row)), fields


def _object(line: str, place: str, decoder: json.JSONDecoder) -> dict[str, object] | DataError:
    try:
        value = decoder.decode(line)
    except (ValueError, RecursionError) as error:
        # json counts lines within the line: "line 1" there would contradict the line we name.
        got = f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
        rule = "a .jsonl file has one JSON object per line"
        return DataError(f"{place}: the JSON is broken", got=got, rule=rule)
    if not isinstance(value, dict):
        rule = 'a row is an object such as {"text": "...", "label": 1}'
        return DataError(f"{place}: the JSON is not an object", got=value, rule=rule)
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(f"{digits} is too large for a number")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)  # made once: json.loads would make one per line
_FINITE = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_no_number, parse_float=_finite)


def _header(fields: list[str], task: Task, place: str) -> tuple[str, ...]:
    """The columns that the first line names, or those of a file whose first line is already a row."""
    known = {name for names in task.columns.values() for name in names}
    if len(fields) == len(task.headerless) and not known & set(fields):
        return task.headerless
    if twice := sorted({name for name in fields if fields.count(name) > 1}):
        raise DataError(f"{place}: the header names a column twice", got=twice)
    return tuple(fields)


def _named(header: tuple[str, ...], fields: list[str], place: str, form: str) -> dict[str, object] | DataError:
    if len(fields) == len(header):
        return dict(zip(header, fields, strict=True))
    if form == "txt":
        what = "two texts with one tab between them" if len(header) > 1 else "one text without a tab"
        got, remedy = f"{len(fields) - 1} tabs", "use .jsonl for texts that hold a tab"
        return DataError(f"{place}: the line is not {what}", got=got, remedy=remedy)
    remedy = "a .tsv field holds no tab or newline; use .csv with quoted fields"
    remedy = "quote fields that contain the separator" if form == "csv" else remedy
    what, rule = f"{place}: the {form.upper()} row is ragged", f"the header has {len(header)} columns"
    return DataError(what, got=f"{len(fields)} fields", rule=rule, remedy=remedy)
