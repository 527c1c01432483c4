"""Where data is: a file, a `datasets` object, the hub, or a folder as its authors publish it.

GLUE's download, aclImdb, RACE and the MSR paraphrase corpus (MRPC) are found by the names they come with.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from datasets import Dataset

from powerbert.errors import DataError
from powerbert.tasks.files import EXTENSIONS, Record, Source, file_format, read_lines, text_source
from powerbert.tasks.tables import HUB, dataset_source, hub_source, parquet_source
from powerbert.tasks.task import Task

DataSource: TypeAlias = str | Path | Dataset
ENDINGS = (".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", "")
"""What may follow the name of a split; nothing for a folder."""
LEVELS = ("middle", "high")  # of RACE


def open_source(data: DataSource, task: Task) -> Source:
    """Open one split: a path, a split's folder of aclImdb or RACE, an address of the hub, or a dataset."""
    if isinstance(data, str) and data.startswith(HUB):
        return hub_source(data, task)
    if not isinstance(data, str | Path):
        return dataset_source(data, task)
    path = Path(data)
    if "\0" in str(data):
        raise DataError("a path has a NUL character", got=str(data))
    if os.path.isdir(path):
        return _folder(path, task)
    if task.name == "MRPC" and path.name.startswith("msr_paraphrase_") and os.path.isfile(path):
        return text_source(path, task, "tsv")
    if isinstance(data, str) and not path.suffix and not os.path.exists(path):
        raise DataError(
            f"{data} does not exist", rule=f"files are {EXTENSIONS}", remedy=f"for the hub write {HUB}{data}"
        )
    form = file_format(path)
    return parquet_source(path, task) if form == "parquet" else text_source(path, task, form)


def find_source(folder: Any, task: Task, split: str) -> Source:
    """Open one split of a task in a folder of the task, in a folder of all tasks, or on the hub."""
    if split not in task.files:
        raise DataError("unknown split", got=split, rule=f"splits are {', '.join(task.files)}")
    names = task.files[split]
    if isinstance(folder, Mapping):  # a DatasetDict
        found = next((name for name in (split, *names) if name in folder), None)
        if found is None:
            raise DataError(f"there is no split {split!r}", got=list(folder), rule=f"{task.name} needs it")
        return dataset_source(folder[found], task)
    if folder == "hub" and task.hub:
        return hub_source(f"{HUB}{task.hub}@{names[-1]}", task)  # the hub's name comes last
    root = Path(folder)
    if not os.path.isdir(root):
        raise DataError(f"{root} is not a folder", remedy=f"give the folder that holds {task.name}")
    for home in [root / name for name in task.folders if (root / name).is_dir()] or [root]:
        path = _find_file(home, names, split)
        if path is not None:
            return open_source(path, task)
        if task.name == "MRPC" and (home / "msr_paraphrase_train.txt").is_file():
            return _msr(home, task, split)
    raise DataError(
        f"{root} has no {split} data of {task.name}",
        rule=f"files are {', '.join(names)} with {EXTENSIONS}",
        remedy="check the folder",
    )


def _find_file(home: Path, stems: tuple[str, ...], split: str) -> Path | None:
    """The first stem that exists, with any ending; two files for one stem are refused."""
    for stem in stems:
        found = [path for path in (home / f"{stem}{ending}" for ending in ENDINGS) if path.exists()]
        if len(found) > 1:
            raise DataError(
                f"{home} has two files for {split}",
                got=", ".join(path.name for path in found[:3]),
                remedy="remove one, or name the files with --train and --dev",
            )
        if found:
            return found[0]
    return None


def _folder(path: Path, task: Task) -> Source:
    """One split of a task that is published as a folder of small files."""
    if task.name == "IMDB" and (path / "neg").is_dir() and (path / "pos").is_dir():
        return Source(str(path), _imdb(path), unit="row")
    levels = [path / level for level in LEVELS if (path / level).is_dir()]
    if task.name == "RACE" and (levels or any(path.glob("*.txt"))):
        return Source(str(path), _race(levels or [path]), unit="row")
    raise DataError(
        f"{path} is a folder",
        rule=f"a split of {task.name} is one file ({EXTENSIONS})",
        remedy="name the file in it, or use --task with a folder of the whole task",
    )


def _imdb(folder: Path) -> Iterator[Record]:
    """One split of aclImdb: a review per file in neg/ and pos/, in the order of their numbers."""
    files = [(label, path) for label in ("neg", "pos") for path in _numbered(folder / label)]
    for number, (label, path) in enumerate(files, 1):
        yield Record(number, {"text": _whole(path), "label": label}, str(path))


def _race(levels: list[Path]) -> Iterator[Record]:
    """One split of RACE: an article with its questions per file, in middle/ and high/."""
    number = 0
    for path in (path for level in levels for path in _numbered(level)):
        for question, values in enumerate(_questions(path), 1):
            number += 1
            yield Record(number, values, f"{path}, question {question}")


def _questions(path: Path) -> list[dict[str, object]]:
    """The questions of one article as rows."""
    try:
        page = json.loads(_whole(path))
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
    names = ("article", "question", "options", "answer")
    return [dict(zip(names, (page.get("article"), *row), strict=True)) for row in rows]


def _numbered(folder: Path) -> list[Path]:
    """The .txt files of a folder in the order of the numbers in their names, whatever the file system's."""

    def numbers(path: Path) -> tuple[list[int], str]:
        return [int(digits) for digits in re.findall(r"\d{1,18}", path.name, re.ASCII)], path.name

    return sorted(folder.glob("*.txt"), key=numbers)


def _whole(path: Path) -> str:
    """The whole of a small UTF-8 file, without BOM."""
    return "".join(line for _, line in read_lines(path))


def _msr(home: Path, task: Task, split: str) -> Source:
    """MRPC before GLUE's script ran: `dev_ids.tsv` names the dev pairs, else the test file is dev."""
    ids = home / "dev_ids.tsv"
    if not ids.is_file():
        name = "msr_paraphrase_train.txt" if split == "train" else "msr_paraphrase_test.txt"
        return open_source(home / name, task)
    source = text_source(home / "msr_paraphrase_train.txt", task, "tsv")
    wanted = {tuple(line.rstrip("\r\n").split("\t")) for _, line in read_lines(ids)}
    source.records = (
        record
        for record in source.records
        if ((record.values.get("#1 ID"), record.values.get("#2 ID")) in wanted) is (split == "dev")
    )
    return source
