"""From a path, an address of the hub or a `datasets` object to checked rows.

Paper: Datasets

The first bad row ends it, named by file and line.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow
from datasets import ClassLabel, Dataset, Features, Sequence, Value

from powerbert.errors import DataError
from powerbert.tasks.checks import check_splits
from powerbert.tasks.files import RawRow, Source
from powerbert.tasks.sources import DataSource, find_source, open_source
from powerbert.tasks.task import CHOICES, Split, Task

TEXT = Value("large_string")  # 64-bit offsets: a split may hold more than 2 GB of text
FLAGS = {"text": "--text", "text_pair": "--text-pair", "label": "--label"}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan", re.ASCII | re.IGNORECASE)
LONE = re.compile("[\ud800-\udfff]")
MAX_CLASSES = 1000


class DataRow(NamedTuple):
    """A checked row."""

    number: int  # the line or row of the source, from 1
    texts: dict[str, Any]  # `text`, and `text_pair` of a pair; or `article`, `question`, `options`
    label: int | float | str | None  # a class index, a number, or the name of a class that is not known yet


class _BadLabelError(Exception):
    """What is wrong with a label, the rule and the remedy; the caller knows the row."""


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
    """Check every row; a source without any is refused."""
    names = _resolve(source, source.columns, task, labelled) if source.columns else {}
    known, good = _lookup(task), 0
    for row in source.rows:
        names = names or _resolve(source, tuple(row.values), task, labelled, row)
        texts = {role: row.values.get(column) for role, column in names.items() if role != "label"}
        if problem := _text_problem(texts, names):
            what, got = problem
            if task.skip_incomplete and _is_missing(got):
                source.skip("rows without a text", [row.number])
                continue
            raise DataError(f"{row.place}: {what}", got=got, remedy="correct or remove the row")
        label = _label(row, row.values.get(names["label"]), task, known, source) if labelled else None
        good += 1
        yield DataRow(row.number, texts, label)
    if not good:
        what = f"{source.name} has no {'complete ' if source.left_out else ''}rows"
        raise DataError(what, rule="a split has at least one row")


def _resolve(
    source: Source, existing: tuple[str, ...], task: Task, labelled: bool, row: RawRow | None = None
) -> dict[str, str]:
    """Normalised column -> the source's name for it; `row` is where the existing columns were seen."""
    columns = f" of line {row.number}" if row is not None and source.format == "jsonl" else ""
    plain = source.format == "txt"  # its texts have no names but their roles
    names = {}
    for role, accepted in (*task.columns.items(), *([("label", task.label_columns)] if labelled else [])):
        found = next((name for name in ((role,) if plain else accepted) if name in existing), None)
        if found is None:
            remedy = f"name one with {FLAGS[role]}" if role in FLAGS and not task.folders else ""
            raise DataError(
                f"{source.name}: there is no column {' or '.join(map(repr, accepted))}",
                rule=f"the columns{columns} are {', '.join(map(repr, existing[:30])) or 'none'}",
                remedy="a .txt file has texts alone; use .csv or .jsonl" if plain else remedy,
            )
        names[role] = found
    return names


def _text_problem(texts: Mapping[str, object], names: Mapping[str, str]) -> tuple[str, object] | None:
    """What is wrong with the texts of a row, and the value; length is not, long texts are cut before tokenising."""
    for role, value in texts.items():
        if role == "options" and (not isinstance(value, list | tuple) or len(value) != CHOICES):
            return f"column {names[role]!r} is not a list of {CHOICES} options", value
        for text in value if isinstance(value, list | tuple) and role == "options" else [value]:
            if problem := _problem(text):
                option = "an option in " if role == "options" else ""
                return f"{option}column {names[role]!r} {problem}", text
    return None


def _problem(text: object) -> str | None:
    if not isinstance(text, str):
        return "is missing" if text is None else "is not text"
    if not text.strip():
        return "is empty"
    if "\0" in text:
        return "has a NUL character"
    lone = not text.isascii() and LONE.search(text)
    return "has a lone surrogate, half of a character" if lone else None


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


# ---- labels as files write them: an index, a number, a name ----------------------------------


def _label(row: RawRow, value: object, task: Task, known: dict[str, int], source: Source) -> int | float | str:
    """A class index, a float, or the class name of a task whose classes are not known yet."""
    try:
        if _is_missing(value):
            raise _BadLabelError("missing", "", "label or remove the row")
        if task.kind == "regression":
            return _real(value, task.label_range)
        if not task.is_own:
            return _class_index(value, known, task)
        # A source that declares its classes has given the name already.
        return str(value) if source.label_names else _class_name(value)
    except _BadLabelError as error:
        what, rule, remedy = error.args
        raise DataError(f"{row.place}: the label is {what}", got=value, rule=rule, remedy=remedy) from None


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _lookup(task: Task) -> dict[str, int]:
    """Name of a class -> index; unless the names must be exact also casefolded name, alias and index."""
    known = {name: index for index, name in enumerate(task.labels or ())}
    if task.exact_labels:
        return known
    loose = {name.casefold(): index for name, index in known.items()} | dict(task.label_aliases)
    # A class may itself be called "2" (stars "1" to "5"): then a number is a name, never an index.
    if any(NUMBER.fullmatch(name) for name in known):
        return loose | known
    indices = {str(index): index for index in known.values()}
    return indices | ({"false": 0, "true": 1} if len(known) == 2 else {}) | loose | known


def _class_index(value: object, known: dict[str, int], task: Task) -> int:
    """The index of a class given by name, alias, index or numeric string."""
    index = known.get(value.strip()) if isinstance(value, str) else None
    if index is None:
        name = _class_name(value)
        index = known.get(name if task.exact_labels else name.casefold(), known.get(name))
    if index is None:
        names = task.labels or ()
        shown = [name if task.exact_labels else f"{i} {name}" for i, name in enumerate(names[:10])]
        shown += ["…"] if len(names) > 10 else []
        remedy = "a class must occur in the training data" if task.exact_labels else "give index or name"
        raise _BadLabelError("unknown", f"labels are {', '.join(shown)}", remedy)
    return index


def _class_name(value: object) -> str:
    """The name of a class in a user's own data: text as it is; 1, 1.0 and "1.0" are one class, "1"."""
    number = None if isinstance(value, int) else _number(value)
    if number is None:
        if not isinstance(value, str | int):
            raise _BadLabelError("neither text nor a number", "", "")
        return str(value).strip()
    if number != int(number):
        raise _BadLabelError("not a class", "a class is a name or a whole number", "for scores use a regression task")
    text = str(value).strip()
    return text if text.lstrip("+-").isdigit() else str(int(number))


def _discovered(source: Source, labels: Iterable[str], task: Task) -> tuple[str, ...]:
    """The class names of a user's own training data: sorted, as numbers if they all are whole numbers."""
    found = set(labels)
    if len(found) > MAX_CLASSES:
        what = f"{source.name}: column {task.label_columns[0]!r} has {len(found):,} different values"
        raise DataError(
            what, rule=f"at most {MAX_CLASSES:,} classes", remedy="check that --label names the label column"
        )
    whole = all(re.fullmatch(r"[+-]?\d{1,18}", name, re.ASCII) for name in found)
    return tuple(sorted(found, key=lambda name: (int(name) if whole else 0, name)))


def _real(value: object, label_range: tuple[float, float] | None) -> float:
    """A number in range, given as a number or a numeric string."""
    number, (least, greatest) = _number(value), label_range or (-math.inf, math.inf)
    if number is None:
        raise _BadLabelError("not a number", "a regression task has numbers as labels", "")
    if not least <= number <= greatest:
        raise _BadLabelError("out of range", f"labels are between {least:g} and {greatest:g}", "")
    return number


def _number(value: object) -> float | None:
    """A number or numeric string as a float, None for anything else; what is not finite is refused."""
    if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not abs(value) <= sys.float_info.max:  # also NaN, and a whole number beyond the floats
        raise _BadLabelError("not finite", "labels are names or finite numbers", "")
    return float(value)
