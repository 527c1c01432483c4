"""From records to a normalised dataset; the first bad row ends it, named by file and line."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow
from datasets import ClassLabel, Dataset, Features, Sequence, Value

from powerbert.errors import DataError
from powerbert.tasks.checks import text_problem
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
from powerbert.tasks.provenance import describe
from powerbert.tasks.source import Record, Source, skipped
from powerbert.tasks.task import CHOICES, Task

TEXT = Value("large_string")  # 64-bit offsets: a split may hold more than 2 GB of text


def normalise(source: Source, task: Task, labelled: bool = True) -> Dataset:
    """Check every record and build the dataset: the task's columns, `label`, and `row`.

    `row` is the line (text formats) or row number where the record came from. The label is a ClassLabel,
    so that class names travel with the data; for a user's own task they are those found here.
    """
    columns: dict[str, list[object]] = {name: [] for name in (*task.columns, "label", "row")}
    names = {} if source.columns is None else _resolve(source, source.columns, task, labelled)
    incomplete: list[int] = []
    known = lookup(task)
    for record in _records(source):
        if not names:
            names = _resolve(source, tuple(record.values), task, labelled, record)
        texts = {role: record.values.get(column) for role, column in names.items() if role != "label"}
        problem = _text_problem(texts, names)
        if problem:
            if task.skip_incomplete and is_missing(problem[1]):
                incomplete.append(record.number)
                continue
            raise DataError(
                f"{source.place(record)}: {problem[0]}", got=problem[1], remedy="correct or remove the row"
            )
        for role, text in texts.items():
            columns[role].append(text)
        if labelled:
            columns["label"].append(_label(source, record, record.values.get(names["label"]), task, known))
        columns["row"].append(record.number)
    source.notes += skipped(incomplete, "rows without a text", source.unit)
    return _dataset(source, task, columns, labelled)


def _records(source: Source) -> Iterator[Record]:
    """Yield all records, refusing a source that has none."""
    empty = True
    for record in source.records:
        empty = False
        yield record
    if empty:
        raise DataError(f"{source.name} has no rows", rule="a split has at least one row")


def _resolve(
    source: Source, existing: tuple[str, ...], task: Task, labelled: bool, record: Record | None = None
) -> dict[str, str]:
    """Normalised column -> the source's name for it; `record` is where the existing columns were seen."""
    columns = "the columns"
    if record is not None and source.self_describing:
        columns += f" of {source.unit} {record.number}"
    wanted = dict(task.columns) | ({"label": task.label_columns} if labelled else {})
    names = {}
    for role, accepted in wanted.items():
        found = [name for name in accepted if name in existing]
        if not found:
            flag = {"text": "--text", "text_pair": "--text-pair", "label": "--label"}.get(role, "")
            raise DataError(
                f"{source.name}: there is no column {' or '.join(map(repr, accepted))}",
                rule=f"{columns} are {', '.join(map(repr, existing[:30])) or 'none'}",
                remedy=f"name one with {flag}" if flag and not task.folders else "",
            )
        names[role] = found[0]
    return names


def _text_problem(texts: dict[str, object], names: dict[str, str]) -> tuple[str, object] | None:
    """What is wrong with the texts of a row, and the value, or None."""
    for role, text in texts.items():
        if role != "options":
            problem = text_problem(text)
            if problem:
                return f"column {names[role]!r} {problem}", text
            continue
        if not isinstance(text, list | tuple) or len(text) != CHOICES:
            return f"column {names[role]!r} is not a list of {CHOICES} options", text
        for option in text:
            problem = text_problem(option)
            if problem:
                return f"an option in column {names[role]!r} {problem}", option
    return None


def _label(
    source: Source, record: Record, value: object, task: Task, known: dict[str, int]
) -> int | float | str:
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
        raise DataError(
            f"{source.place(record)}: {error.what}", got=value, rule=error.rule, remedy=error.remedy
        ) from None


def _dataset(source: Source, task: Task, columns: dict[str, list[object]], labelled: bool) -> Dataset:
    if not columns["row"]:
        raise DataError(f"{source.name} has no complete rows", rule="a split has at least one row")
    features = {name: Sequence(TEXT) if name == "options" else TEXT for name in task.columns}
    if not labelled:
        del columns["label"]
    elif task.kind == "regression":
        features["label"] = Value("float64")
    else:
        names = task.labels
        if names is None:
            found = [str(name) for name in columns["label"]]
            names = source.label_names or discover(found)
            _check_classes(source, names, task)
            index = {name: i for i, name in enumerate(names)}
            columns["label"] = [index[name] for name in found]
        features["label"] = ClassLabel(names=list(names))
    features["row"] = Value("int64")
    # Straight to Arrow, in memory: Dataset.from_dict would encode value by value, at twice the time.
    table = pyarrow.Table.from_pydict(columns, schema=Features(features).arrow_schema)
    return describe(Dataset(table), source.name, source.unit, source.notes)


def _check_classes(source: Source, names: tuple[str, ...], task: Task) -> None:
    if len(names) > MAX_CLASSES:
        raise DataError(
            f"{source.name}: column {task.label_columns[0]!r} has {len(names):,} different values",
            rule=f"at most {MAX_CLASSES:,} classes",
            remedy="check that --label names the label column",
        )
