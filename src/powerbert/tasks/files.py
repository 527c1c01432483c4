"""Text files line by line: plain or gzip, BOM and CRLF accepted, and every fault named with its line."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from powerbert.errors import DataError

FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
EXTENSIONS = ".jsonl, .csv, .tsv (each also .gz) or .parquet"
GZIP = b"\x1f\x8b"


def file_format(path: Path) -> str:
    """Return jsonl, csv, tsv or parquet by the extension of a file that exists."""
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


def read_text(path: Path) -> str:
    """The whole of a small UTF-8 file, without BOM."""
    return "".join(line for _, line in read_lines(path))


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
