"""From a path, an address of the hub or a `datasets` object to checked rows.

Paper: Datasets

The first bad row ends it, named by file and line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow
from datasets import ClassLabel, Dataset, Features, Sequence, Value

from powerbert.errors import DataError
from powerbert.tasks.checks import check_splits, text_problem
from powerbert.tasks.files import Record, Source
from powerbert.tasks.labels import (
    MAX_CLASSES,
    BadValueError,
    class_index,
    class_name,
    discover,
    is_missing,
    lookup,
    real,
)
from powerbert.tasks.published import DataSource, find_source, open_source
from powerbert.tasks.task import CHOICES, Split, Task

TEXT = Value("large_string")  # 64-bit offsets: a split may hold more than 2 GB of text
FLAGS = {"text": "--text", "text_pair": "--text-pair", "label": "--label"}


class DataRow(NamedTuple):
    """A checked row."""

    number: int
    """The line or row of the source, from 1."""
    texts: dict[str, Any]
    """`text`, and `text_pair` of a pair; or `article`, `question`, `options` of a multiple choice."""
    label: int | float | str | None
    """A class index, a number, or the class name of a task whose classes are not known yet."""


def read_split(data: DataSource, task: Task, *, labelled: bool = True) -> Split:
    """Read and check one split; everything is held in memory and nothing is written to disk.

    `data` is a file (JSONL, CSV, TSV or one text per line, each also gzip; Parquet), a split's folder of
    aclImdb or RACE, `hub:NAME[:CONFIGURATION][@SPLIT]`, or a `datasets.Dataset`. Columns of the result:
    `text`, `text_pair` if there is one, `label` (ClassLabel or float), or for multiple choice `article`,
    `question`, `options`, `label`; and `row`, the line or row of the source. `labelled=False` leaves the
    label out. The label is a ClassLabel, so that class names travel with the data.
    """
    return _split(open_source(data, task), task, labelled)


def stream_rows(data: DataSource, task: Task, *, labelled: bool = False) -> Iterator[DataRow]:
    """Check and yield one row after the other, of the same data: for files larger than memory."""
    return _rows(open_source(data, task), task, labelled)


def read_splits(data: Mapping[str, DataSource], task: Task) -> tuple[Task, dict[str, Split]]:
    """Read `train` first, then the others; returns the task with the class names found in `train`.

    For a task with known classes the task comes back as it was.
    """
    splits: dict[str, Split] = {}
    for name in sorted(data, key=lambda name: name != "train"):
        splits[name] = read_split(data[name], task)
        feature = splits[name].dataset.features.get("label")
        if task.is_own and isinstance(feature, ClassLabel):
            if name != "train":
                raise DataError(
                    f"the classes of {name} are not known",
                    rule="a task of your own learns its classes from the training data",
                    remedy="give --train too, or a model that has label names",
                )
            if len(feature.names) == 1:  # else the second class of dev would be called unknown
                check_splits({name: splits[name]}, task)
            task = task.with_labels(feature.names)
    return task, {name: splits[name] for name in data}


def task_data(
    folder: Any, task: Task, splits: Iterable[str] = ("train", "dev"), *, labelled: bool = True
) -> dict[str, Split]:
    """Read the splits of one of the paper's tasks from a folder, found by the names it is published with.

    `folder` is the task's folder or one that holds it: GLUE's download, aclImdb, RACE, or files such as
    `MNLI/dev_matched.jsonl.gz`. The word "hub" reads them from the Hugging Face hub, and a `DatasetDict`
    is taken as it is. IMDB's dev is the test set where there is no dev file.
    """
    return {name: _split(find_source(folder, task, name), task, labelled) for name in splits}


# ---- rows ----------------------------------------------------------------------------------


def _rows(source: Source, task: Task, labelled: bool) -> Iterator[DataRow]:
    """Check every record; a source without any is refused."""
    names = {} if source.columns is None else _resolve(source, source.columns, task, labelled)
    known, good = lookup(task), 0
    for record in source.records:
        if not names:
            names = _resolve(source, tuple(record.values), task, labelled, record)
        texts = {role: record.values.get(column) for role, column in names.items() if role != "label"}
        if problem := _text_problem(texts, names):
            what, got = problem
            if task.skip_incomplete and is_missing(got):
                source.skip("rows without a text", [record.number])
                continue
            remedy = "correct or remove the row"
            raise DataError(f"{source.place(record)}: {what}", got=got, remedy=remedy)
        label = _label(source, record, record.values.get(names["label"]), task, known) if labelled else None
        good += 1
        yield DataRow(record.number, texts, label)
    if not good:
        what = f"{source.name} has no {'complete ' if source.left_out else ''}rows"
        raise DataError(what, rule="a split has at least one row")


def _resolve(
    source: Source, existing: tuple[str, ...], task: Task, labelled: bool, record: Record | None = None
) -> dict[str, str]:
    """Normalised column -> the source's name for it; `record` is where the existing columns were seen."""
    columns = "the columns"
    if record is not None and source.format == "jsonl":
        columns += f" of {source.unit} {record.number}"
    wanted = dict(task.columns) | ({"label": task.label_columns} if labelled else {})
    names = {}
    for role, accepted in wanted.items():
        plain = source.format == "txt"  # its texts have no names but their roles
        found = [name for name in ((role,) if plain else accepted) if name in existing]
        if not found:
            remedy = f"name one with {FLAGS[role]}" if role in FLAGS and not task.folders else ""
            raise DataError(
                f"{source.name}: there is no column {' or '.join(map(repr, accepted))}",
                rule=f"{columns} are {', '.join(map(repr, existing[:30])) or 'none'}",
                remedy="a .txt file has texts alone; use .csv or .jsonl" if plain else remedy,
            )
        names[role] = found[0]
    return names


def _text_problem(texts: dict[str, object], names: dict[str, str]) -> tuple[str, object] | None:
    """What is wrong with the texts of a row, and the value, or None."""
    for role, text in texts.items():
        if role != "options":
            if problem := text_problem(text):
                return f"column {names[role]!r} {problem}", text
            continue
        if not isinstance(text, list | tuple) or len(text) != CHOICES:
            return f"column {names[role]!r} is not a list of {CHOICES} options", text
        for option in text:
            if problem := text_problem(option):
                return f"an option in column {names[role]!r} {problem}", option
    return None


def _label(source: Source, record: Record, value: object, task: Task, known: dict[str, int]) -> int | float | str:
    """A class index, a float, or the class name of a task whose classes are not known yet."""
    try:
        if is_missing(value):
            raise BadValueError("the label is missing", remedy="label or remove the row")
        if task.kind == "regression":
            return real(value, task.label_range)
        if not task.is_own:
            return class_index(value, known, task)
        # A source that declares its classes has given the name already.
        return str(value) if source.label_names else class_name(value)
    except BadValueError as error:
        what = f"{source.place(record)}: {error.what}"
        raise DataError(what, got=value, rule=error.rule, remedy=error.remedy) from None


# ---- a whole split -------------------------------------------------------------------------


def _split(source: Source, task: Task, labelled: bool) -> Split:
    columns: dict[str, list[Any]] = {name: [] for name in (*task.columns, "label", "row")}
    for row in _rows(source, task, labelled):
        for role, text in row.texts.items():
            columns[role].append(text)
        columns["label"].append(row.label)
        columns["row"].append(row.number)
    features = {name: Sequence(TEXT) if name == "options" else TEXT for name in task.columns}
    if not labelled:
        del columns["label"]
    elif task.kind == "regression":
        features["label"] = Value("float64")
    else:
        names = task.labels
        if names is None:
            names = source.label_names or _discovered(source, columns["label"], task)
            index = {name: i for i, name in enumerate(names)}
            columns["label"] = [index[name] for name in columns["label"]]
        features["label"] = ClassLabel(names=list(names))
    features["row"] = Value("int64")
    # Straight to Arrow, in memory: Dataset.from_dict would encode value by value, at twice the time.
    table = pyarrow.Table.from_pydict(columns, schema=Features(features).arrow_schema)
    skipped = sum(map(len, source.left_out.values()))
    return Split(Dataset(table), source.name, source.unit, source.notes, skipped)


def _discovered(source: Source, labels: list[str], task: Task) -> tuple[str, ...]:
    names = discover(labels)
    if len(names) > MAX_CLASSES:
        raise DataError(
            f"{source.name}: column {task.label_columns[0]!r} has {len(names):,} different values",
            rule=f"at most {MAX_CLASSES:,} classes",
            remedy="check that --label names the label column",
        )
    return names
