"""From a path, a hub name or a `datasets` object to normalised, checked splits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from datasets import ClassLabel, Dataset

from powerbert.errors import DataError
from powerbert.tasks.checks import check_splits
from powerbert.tasks.files import EXTENSIONS
from powerbert.tasks.folders import imdb_source, is_imdb, is_race, msr_source, race_source
from powerbert.tasks.formats import dataset_source, file_source
from powerbert.tasks.hub import PREFIX, hub_split
from powerbert.tasks.rows import normalise
from powerbert.tasks.source import Source
from powerbert.tasks.task import Task

Data: TypeAlias = str | Path | Dataset
ENDINGS = (".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", "")
"""What may follow the name of a split; nothing for a folder."""


def read_split(data: Data, task: Task, *, labelled: bool = True) -> Dataset:
    """Read and check one split; everything is held in memory and nothing is written to disk.

    `data` is a file (JSONL, CSV, TSV, each also gzip; Parquet), a split's folder of aclImdb or RACE,
    `hub:NAME[:CONFIGURATION][@SPLIT]`, or a `datasets.Dataset`. Columns of the result: `text`, `text_pair`
    if there is one, `label` (ClassLabel or float), or for multiple choice `article`, `question`,
    `options`, `label`; and `row`, the line or row of the source. `labelled=False` leaves the label out.
    """
    return normalise(_open(data, task), task, labelled)


def read_splits(data: Mapping[str, Data], task: Task) -> tuple[Task, dict[str, Dataset]]:
    """Read `train` first, then the others; returns the task with the class names found in `train`.

    For a task with known classes the task comes back as it was.
    """
    splits: dict[str, Dataset] = {}
    for split in sorted(data, key=lambda split: split != "train"):
        splits[split] = read_split(data[split], task)
        feature = splits[split].features.get("label")
        if task.is_own and isinstance(feature, ClassLabel):
            if split != "train":
                raise DataError(
                    f"the classes of {split} are not known",
                    rule="a task of your own learns its classes from the training data",
                    remedy="give --train too, or a model that has label names",
                )
            if len(feature.names) == 1:  # else the second class of dev would be called unknown
                check_splits({split: splits[split]}, task)
            task = task.with_labels(feature.names)
    return task, {split: splits[split] for split in data}


def task_data(
    folder: Any, task: Task, splits: Iterable[str] = ("train", "dev"), *, labelled: bool = True
) -> dict[str, Dataset]:
    """Read the splits of one of the paper's tasks from a folder, found by the names it is published with.

    `folder` is the task's folder or one that holds it: GLUE's download, aclImdb, RACE, or files such as
    `MNLI/dev_matched.jsonl.gz`. The word "hub" reads them from the Hugging Face hub, and a `DatasetDict`
    is taken as it is. IMDB's dev is the test set where there is no dev file.
    """
    return {split: normalise(_find(folder, task, split), task, labelled) for split in splits}


def _open(data: Data, task: Task) -> Source:
    if isinstance(data, str) and data.startswith(PREFIX):
        return dataset_source(hub_split(data), task, data)
    if not isinstance(data, str | Path):
        return dataset_source(data, task)
    path = Path(data)
    if "\0" in str(data):
        raise DataError("a path has a NUL character", got=str(data))
    if os.path.isdir(path):
        return _folder(path, task)
    if task.name == "MRPC" and path.name.startswith("msr_paraphrase_") and os.path.isfile(path):
        return msr_source(path, task)
    if isinstance(data, str) and not path.suffix and not os.path.exists(path):
        raise DataError(
            f"{data} does not exist",
            rule=f"files are {EXTENSIONS}",
            remedy=f"for the hub write {PREFIX}{data}",
        )
    return file_source(path, task)


def _folder(path: Path, task: Task) -> Source:
    """One split of a task that is published as a folder of small files."""
    if task.name == "IMDB" and is_imdb(path):
        return imdb_source(path)
    if task.name == "RACE" and is_race(path):
        return race_source(path)
    raise DataError(
        f"{path} is a folder",
        rule=f"a split of {task.name} is one file ({EXTENSIONS})",
        remedy="name the file in it, or use --task with a folder of the whole task",
    )


def _find(folder: Any, task: Task, split: str) -> Source:
    """Open one split of a task in a folder of the task, in a folder of all tasks, or on the hub."""
    if split not in task.files:
        raise DataError("unknown split", got=split, rule=f"splits are {', '.join(task.files)}")
    if isinstance(folder, Mapping):  # a DatasetDict
        return dataset_source(_pick(folder, task, split), task)
    if folder == "hub" and task.hub:
        return _open(f"{PREFIX}{task.hub}@{task.files[split][-1]}", task)  # the hub's name comes last
    root = Path(folder)
    if not os.path.isdir(root):
        raise DataError(f"{root} is not a folder", remedy=f"give the folder that holds {task.name}")
    for home in [root / name for name in task.folders if (root / name).is_dir()] or [root]:
        for stem in task.files[split]:
            found = [path for path in (home / f"{stem}{ending}" for ending in ENDINGS) if path.exists()]
            if len(found) > 1:
                raise DataError(
                    f"{home} has two files for {split}",
                    got=", ".join(path.name for path in found[:3]),
                    remedy="remove one, or name the files with --train and --dev",
                )
            if found:
                return _open(found[0], task)
        if task.name == "MRPC" and (home / "msr_paraphrase_train.txt").is_file():
            return _msr(home, task, split)
    raise DataError(
        f"{root} has no {split} data of {task.name}",
        rule=f"files are {', '.join(task.files[split])} with {EXTENSIONS}",
        remedy="check the folder",
    )


def _pick(splits: Mapping[str, Any], task: Task, split: str) -> Any:
    for name in (split, *task.files[split]):
        if name in splits:
            return splits[name]
    raise DataError(f"there is no split {split!r}", got=list(splits), rule=f"{task.name} needs it")


def _msr(home: Path, task: Task, split: str) -> Source:
    """MRPC before GLUE's script ran: `dev_ids.tsv` names the dev pairs, else the test file is dev."""
    ids = home / "dev_ids.tsv"
    if ids.is_file():
        return msr_source(home / "msr_paraphrase_train.txt", task, ids, dev=split == "dev")
    name = "msr_paraphrase_train.txt" if split == "train" else "msr_paraphrase_test.txt"
    return _open(home / name, task)
