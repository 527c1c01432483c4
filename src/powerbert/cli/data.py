"""The data that a command works on, from its flags."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datasets import Dataset

from powerbert.cli.groups import Columns, TrainingData
from powerbert.cli.output import note
from powerbert.errors import DataError, ModelFolderError
from powerbert.tasks.readers import read_splits, task_data
from powerbert.tasks.registry import find_task, own_task
from powerbert.tasks.sampling import subset
from powerbert.tasks.task import Task
from powerbert.training.data import Data


def task_of(columns: Columns, labels: tuple[str, ...] | None = None) -> Task:
    """The paper's task of that name, or one of the user's own columns."""
    if columns.task is not None:
        own = [columns.text, columns.text_pair, columns.label]
        if any(own) or columns.regression or columns.metric:
            raise DataError(
                "--task brings its own columns, labels and metric",
                got=columns.task,
                remedy="leave out --text, --text-pair, --label, --regression and --metric, or --task",
            )
        return find_task(columns.task)
    if columns.text is None:
        raise DataError("which text?", remedy="give --task NAME, or --text COL for your own files")
    return own_task(
        columns.text,
        columns.text_pair,
        columns.label or "label",
        kind="regression" if columns.regression else "classification",
        labels=labels,
        metric=columns.metric,
    )


def read_training_data(source: TrainingData, seed: int) -> Data:
    """Read and check both splits; say what a person should know about them."""
    task = task_of(source)
    splits: Mapping[str, Dataset]
    if source.train is not None and source.dev is not None and source.data is None:
        task, splits = read_splits({"train": source.train, "dev": source.dev}, task)
    elif source.task is not None and source.data is not None and source.train is source.dev is None:
        splits = task_data(source.data, task)
    else:
        raise DataError(
            "where is the data?", remedy="give --task NAME --data FOLDER, or --train FILE --dev FILE"
        )
    parts = {
        "train": part(splits["train"], source.rows, seed),
        "dev": part(splits["dev"], source.dev_rows, 0),
    }
    data = Data.of(task, parts)
    for line in (*data.findings.lines(), *data.findings.notes):
        note(line)
    for line in data.findings.warnings:
        note(f"warning: {line}")
    return data


def part(split: Dataset, rows: int | None, seed: int) -> Dataset:
    """The split, or a seeded part of it."""
    return split if rows is None else subset(split, rows, seed)


def labels_of(model: Any) -> tuple[str, ...] | None:
    """The class names that a model carries; None for one that predicts a number or scores choices."""
    if model.config.num_labels < 2:
        return None
    return tuple(model.config.id2label[i] for i in range(model.config.num_labels))


def existing_folder(folder: str) -> Path:
    """The folder of a model, absolute, so that a later step finds it from anywhere."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise ModelFolderError(f"{folder} is not a folder", remedy="give the folder of a model")
    return path.resolve()
