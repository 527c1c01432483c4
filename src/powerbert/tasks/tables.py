"""Rows that have columns already, as numbered records: Parquet, `datasets` objects, and the hub's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from datasets import ClassLabel, Dataset, Features, load_dataset
from pyarrow import parquet

from powerbert.errors import DataError
from powerbert.tasks.files import Record, Source
from powerbert.tasks.task import ROWS_AT_ONCE, Task

HUB = "hub:"


def parquet_source(path: Path, task: Task) -> Source:
    """Read the columns of a Parquet file that the task can use."""
    try:
        file = parquet.ParquetFile(path)
        names = tuple(file.schema_arrow.names)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(
            f"{path} is not a Parquet file", got=str(error), remedy="write it again, or use .jsonl"
        ) from error

    def batches() -> Iterator[Mapping[str, list[Any]]]:
        try:
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=_usable(names, task)):
                yield batch.to_pydict()
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(f"{path}: the Parquet file is damaged", got=str(error)) from error

    try:
        features: Mapping[str, Any] = Features.from_arrow_schema(file.schema_arrow)
    except (ValueError, NotImplementedError):  # an Arrow type that datasets does not know
        features = {}
    return _source(str(path), batches(), names, features, task)


def dataset_source(dataset: object, task: Task, name: str = "the dataset") -> Source:
    """Read the columns of a `datasets.Dataset` that the task can use."""
    if not isinstance(dataset, Dataset):
        raise DataError(
            "a split is a path or a datasets.Dataset",
            got=type(dataset).__name__,
            remedy="pass one split, such as dataset['train']",
        )
    names = tuple(dataset.column_names)
    plain = dataset.with_format(None).select_columns(_usable(names, task))
    return _source(name, plain.iter(batch_size=ROWS_AT_ONCE), names, dataset.features, task)


def hub_source(address: str, task: Task) -> Source:
    """Load `hub:NAME[:CONFIGURATION][@SPLIT]`, such as `hub:nyu-mll/glue:sst2@validation`.

    Kept in the hub's own cache, as any download of `datasets`. The prefix is there so that a mistyped
    path never becomes a request to a server. Dataset scripts are never run.
    """
    name, _, split = address.removeprefix(HUB).partition("@")
    name, _, configuration = name.partition(":")
    if not name or name.startswith((".", "/")):
        raise DataError("not a dataset of the hub", got=address, rule="write hub:NAME, hub:NAME:CONFIGURATION@SPLIT")
    try:
        dataset = load_dataset(name, configuration or None, split=split or "train")
    except Exception as error:  # connection, offline mode, unknown name, script, disk: many types, one remedy
        offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        raise DataError(
            f"{address} cannot be loaded from the Hugging Face hub",
            got=f"{type(error).__name__}: {error}",
            remedy="HF_HUB_OFFLINE is set; unset it or give local files"
            if offline
            else "check the name and the network, or give local files",
        ) from error
    return dataset_source(dataset, task, address)


def _usable(names: Sequence[str], task: Task) -> list[str]:
    accepted = {name for accepted in task.columns.values() for name in accepted} | set(task.label_columns)
    return [name for name in names if name in accepted]


def _source(
    name: str,
    batches: Iterator[Mapping[str, list[Any]]],
    columns: tuple[str, ...],
    features: Mapping[str, Any],
    task: Task,
) -> Source:
    """Number the rows from 1, and turn declared class indices into the names they stand for."""
    label = next((column for column in task.label_columns if column in columns), "")
    names = features[label].names if isinstance(features.get(label), ClassLabel) else None

    def named(values: dict[str, object]) -> dict[str, object]:
        index = values.get(label)
        if names is not None and isinstance(index, int):
            # -1 is how the hub marks a row without a label.
            values[label] = names[index] if 0 <= index < len(names) else None
        return values

    rows = (row for batch in batches for row in zip(*batch.values(), strict=True))
    used = _usable(columns, task)
    records = (Record(i, named(dict(zip(used, row, strict=True)))) for i, row in enumerate(rows, 1))
    return Source(name, records, unit="row", columns=columns, label_names=names and tuple(names))
