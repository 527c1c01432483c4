"""Rows in: one file or many, of any format, read once from front to back, with every column of every row.

A row that cannot be answered does not end the reading: it carries its fault, and is counted like any other. So where a
window of rows ends depends on the input alone, whatever becomes of bad rows and wherever a run was stopped.
"""

import glob
import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow

from powerbert.engines.answers import windows
from powerbert.errors import DataError
from powerbert.tasks.files import PIPED, RawRow, Source, file_format, text_source, unpacked
from powerbert.tasks.readers import check_row, resolve
from powerbert.tasks.sources import open_parquet, parquet_batches
from powerbert.tasks.task import Task

WINDOW = 16_384
"""Rows that are sorted by length at a time.

The more, the more batches of one shape follow each other: OpenVINO makes new kernels for every other shape.
"""
_HEAVIEST, _BESIDE = 4_000_000, 4  # characters of text in a window; columns beside may have four times as many
_NANOSECONDS = pyarrow.time64("ns")
_HEAD = 1 << 16  # bytes at the start of a file by which it is known again, with its size and time


class InputRow(NamedTuple):
    """A row, and what the model is asked about it."""

    raw: RawRow
    texts: dict[str, Any]  # by the task's names
    fault: DataError | None = None  # why it cannot be answered


Window = list[InputRow]


class ArrowRow(Mapping[str, object]):
    """A row of an Arrow batch; its values become Python's when they are asked for."""

    __slots__ = ("batch", "index", "names")

    def __init__(self, batch: Any, index: int, names: tuple[str, ...]) -> None:
        self.batch, self.index, self.names = batch, index, names

    def __getitem__(self, name: str) -> object:
        value = self.batch.column(name)[self.index]
        if value.type == _NANOSECONDS and value.is_valid and value.value % 1000:
            raise ValueError("Python's times are not that fine")  # pyarrow would cut it
        return value.as_py()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names


@dataclass(frozen=True)
class InputFiles:
    """What is read, and how; any process that sees the files reads the same windows from it."""

    paths: tuple[Path, ...]
    task: Task
    format: str | None = None  # by default as each name says
    window: int = WINDOW

    def __post_init__(self) -> None:
        forms = dict.fromkeys(map(self.format_of, self.paths))
        if len(forms) > 1:
            remedy = "give a pattern for files of one format"
            raise DataError("the files are of several formats", got=", ".join(forms), remedy=remedy)
        if forms.keys() == {"parquet"} and self.paths == (PIPED,):
            raise DataError(
                "Parquet is not read from standard input", rule="it ends with what comes first", remedy="give a file"
            )

    def format_of(self, path: Path) -> str:
        """As asked for, or as the name says; standard input has JSON lines."""
        return self.format or ("jsonl" if path == PIPED else file_format(path))

    def windows(self, done: int = 0) -> Iterator[Window]:
        """The rows in lists that are answered together, after the first `done` of them."""
        return in_windows(self._rows(), self.window, done)

    def _rows(self) -> Iterator[InputRow]:
        some = False
        for path in self.paths:
            for row in _checked(_source(path, self.task, self.format_of(path)), self.task):
                some = True
                yield row
        if not some:
            raise DataError(f"{self.paths[0]} has no rows", rule="there is at least one to answer")

    def known_again(self) -> list[list[Any]]:
        """Of each file its name, size, time and how it begins."""
        return [_identity(path) for path in self.paths]

    def about(self) -> int | None:
        """About how many rows there are, for the time left; None where only reading tells."""
        return None if self.paths == (PIPED,) else sum(map(self._count, self.paths))

    def _count(self, path: Path) -> int:
        form = self.format_of(path)
        if form == "parquet":
            return int(open_parquet(path).metadata.num_rows)
        try:
            with unpacked(path) as stream:
                lines = sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b""))
        except (OSError, EOFError, zlib.error):  # the reader says where it is damaged, after the answers before that
            return 0
        return max(0, lines - (form in ("csv", "tsv")))


def in_windows(rows: Iterator[InputRow], window: int, done: int = 0) -> Iterator[Window]:
    """Rows in lists: a small first one, for which nobody waits, then up to `window` of them.

    The first one has a row that could be read, if one is near: what is written takes its columns from there.
    """
    leading = list(_until_sound(islice(rows, window)))
    small = max(1, window // 16, len(leading))
    return islice(windows(chain(leading, rows), window, small, weight=_weight, heaviest=_HEAVIEST), done, None)


def _until_sound(rows: Iterator[InputRow]) -> Iterator[InputRow]:
    for row in rows:
        yield row
        if row.fault is None:
            return


def find_inputs(pattern: str) -> tuple[Path, ...]:
    """The files that are meant: standard input for "-", one file, or those that a pattern matches, by name."""
    if pattern == "-":
        return (PIPED,)
    if "\0" in pattern:
        raise DataError("a path has a NUL character", got=pattern)
    if os.path.isfile(pattern):
        return (Path(pattern).resolve(),)
    if os.path.isdir(pattern):
        raise DataError(f"{pattern} is a folder", remedy=f"give the files in it, as '{pattern.rstrip('/')}/*.jsonl'")
    if os.path.exists(pattern):
        raise DataError(f"{pattern} is not a file", rule="a file can be read again", remedy="pipe it to -")
    if not glob.has_magic(pattern):
        raise DataError(f"{pattern} does not exist", remedy="check the path")
    found = sorted(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))
    if not found:
        raise DataError(f"no file matches {pattern}", remedy="check the pattern, and quote it for the shell")
    return tuple(Path(path).resolve() for path in found)


def _source(path: Path, task: Task, form: str) -> Source:
    """The rows of a file with all of its columns, not yet checked."""
    if form != "parquet":
        return text_source(path, task, form, finite=True)
    file = open_parquet(path)
    names = tuple(file.schema_arrow.names)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"{path} has a column twice", got=twice)

    def rows() -> Iterator[RawRow]:
        number = 0
        for batch in parquet_batches(path, file):
            size = batch.nbytes // max(1, len(batch))
            for index in range(len(batch)):
                number += 1
                yield RawRow(number, ArrowRow(batch, index, names), f"{path}, row {number}", size)

    return Source(str(path), rows(), unit="row", columns=names, format=form)


def _checked(source: Source, task: Task) -> Iterator[InputRow]:
    names = resolve(source, task) if source.columns else {}
    for row in source.rows:
        if row.fault is not None:
            yield InputRow(row, {}, row.fault)
            continue
        try:
            names = names or resolve(source, task, row)
            texts = {role: row.values.get(column) for role, column in names.items()}
            check_row(row, texts, names)
        except DataError as fault:
            if not names and source.format != "jsonl":  # what a header lacks no row has
                raise
            yield InputRow(row, {}, fault)
        except (ValueError, OverflowError) as error:  # of Parquet: bytes that are no UTF-8, a time beyond Python's
            unread = row.error("the text cannot be read", str(error), remedy="correct or remove the row")
            yield InputRow(row, {}, unread)
        else:
            yield InputRow(row, texts)


def _weight(row: InputRow) -> int:
    characters = sum(map(len, row.texts.values()))  # of a list of options their number: they weigh by the row's size
    return max(characters, row.raw.size // _BESIDE)


def _identity(path: Path) -> list[Any]:
    about = path.stat()
    with path.open("rb") as file:
        return [str(path), about.st_size, about.st_mtime_ns, hashlib.sha256(file.read(_HEAD)).hexdigest()]
