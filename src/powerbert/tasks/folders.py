"""Folders as their authors publish them: aclImdb, RACE and the MSR paraphrase corpus (MRPC)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from powerbert.errors import DataError
from powerbert.tasks.files import read_lines, read_text
from powerbert.tasks.formats import tsv_source
from powerbert.tasks.source import Record, Source
from powerbert.tasks.task import Task

LEVELS = ("middle", "high")


def imdb_source(folder: Path) -> Source:
    """One split of aclImdb: a review per file in neg/ and pos/, in the order of their numbers."""
    return Source(str(folder), _imdb_records(folder), unit="row")


def _imdb_records(folder: Path) -> Iterator[Record]:
    number = 0
    for label in ("neg", "pos"):
        for path in _numbered(folder / label):
            number += 1
            yield Record(number, {"text": read_text(path), "label": label}, str(path))


def is_imdb(folder: Path) -> bool:
    """Whether the folder is one split of aclImdb."""
    return (folder / "neg").is_dir() and (folder / "pos").is_dir()


def race_source(folder: Path) -> Source:
    """One split of RACE: an article with its questions per file, in middle/ and high/."""
    return Source(str(folder), _race_records(folder), unit="row")


def is_race(folder: Path) -> bool:
    """Whether the folder is one split of RACE, or one level of it."""
    return any((folder / level).is_dir() for level in LEVELS) or any(folder.glob("*.txt"))


def _race_records(folder: Path) -> Iterator[Record]:
    levels = [folder / level for level in LEVELS if (folder / level).is_dir()] or [folder]
    number = 0
    for level in levels:
        for path in _numbered(level):
            for question, values in enumerate(_questions(path), 1):
                number += 1
                yield Record(number, values, f"{path}, question {question}")


def _questions(path: Path) -> list[dict[str, object]]:
    """The questions of one article as rows."""
    try:
        page = json.loads(read_text(path))
        lists = [page["questions"], page["options"], page["answers"]]
        rows = list(zip(*lists, strict=True))
        if not all(isinstance(part, list) for part in lists):
            raise TypeError("questions, options and answers are lists")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path}: not a RACE article",
            got=f"{type(error).__name__}: {error}",
            rule="JSON with article, and as many questions as options and answers",
        ) from error
    article = page.get("article")
    return [
        {"article": article, "question": question, "options": options, "answer": answer}
        for question, options, answer in rows
    ]


def _numbered(folder: Path) -> list[Path]:
    """The .txt files of a folder in the order of the numbers in their names, whatever the file system's."""
    return sorted(
        folder.glob("*.txt"), key=lambda path: ([int(digits) for digits in _digits(path)], path.name)
    )


def _digits(path: Path) -> list[str]:
    return re.findall(r"\d{1,18}", path.name, re.ASCII)


def msr_source(path: Path, task: Task, dev_ids: Path | None = None, dev: bool = False) -> Source:
    """A `msr_paraphrase_*.txt` file; with GLUE's list of dev pairs, the rows in it or those not in it."""
    source = tsv_source(path, task)
    if dev_ids is not None:
        wanted = {tuple(line.rstrip("\r\n").split("\t")) for _, line in read_lines(dev_ids)}
        records = source.records
        source.records = (
            record
            for record in records
            if ((record.values.get("#1 ID"), record.values.get("#2 ID")) in wanted) is dev
        )
    return source
