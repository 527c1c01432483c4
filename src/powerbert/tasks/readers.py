"""From a path, an address of the hub or a `datasets` object to checked rows; the first bad one ends it, by its line.

Paper: Datasets
"""

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
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan", re.ASCII | re.IGNORECASE)
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
MAX_CLASSES = 1000


class DataRow(NamedTuple):
    """A checked row."""

    number: int  # the line or row of the source, from 1
    texts: dict[str, Any]  # `text`, and `text_pair` of a pair; or `article`, `question`, `options`
    label: int | float | str | None  # a class index, a number, or the name of a class that is not known yet


def read_split(data: DataSource, task: Task, *, labelled: bool = True) -> Split:
    """Read and check one split; everything is held in memory and nothing is written to disk.

    `data` is a file (JSONL, CSV, TSV or one text per line, each also gzip; Parquet), a split's folder of aclImdb or
    RACE, `hub:NAME[:CONFIGURATION][@SPLIT]`, or a `datasets.Dataset`. Columns of the result: `text`, `text_pair` if
    there is one, or for multiple choice `article`, `question`, `options`; if `labelled`, `label` (float, or ClassLabel,
    so that class names travel with the data); and `row`, the line or row of the source.
    """
    return _split(open_source(data, task), task, labelled)


def stream_rows(data: DataSource, task: Task, *, labelled: bool = False) -> Iterator[DataRow]:
    """Check and yield one row after the other, of the same data: for files larger than memory."""
    return _rows(open_source(data, task), task, labelled)


def read_splits(data: Mapping[str, DataSource], task: Task) -> tuple[Task, dict[str, Split]]:
    """Read `train` first, then the others; the task comes back, with the class names of `train` if it had none."""
    splits: dict[str, Split] = {}
    for name in sorted(data, key=lambda name: name != "train"):
        splits[name] = read_split(data[name], task)
        feature = splits[name].dataset.features.get("label")
        if task.is_own and isinstance(feature, ClassLabel):
            if name != "train":
                rule = "a task of your own learns its classes from the training data"
                remedy = "give --train too, or a model that has label names"
                raise DataError(f"the classes of {name} are not known", rule=rule, remedy=remedy)
            if len(feature.names) == 1:  # else the second class of dev would be called unknown
                check_splits({name: splits[name]}, task)
            task = task.with_labels(feature.names)
    return task, {name: splits[name] for name in data}


def task_data(
    folder: Any, task: Task, splits: Iterable[str] = ("train", "dev"), *, labelled: bool = True
) -> dict[str, Split]:
    """Read the splits of one of the paper's tasks from a folder, found by the names it is published with.

    `folder` is the task's folder or one that holds it: GLUE's download, aclImdb, RACE, or files such as
    `MNLI/dev_matched.jsonl.gz`; "hub" for the Hugging Face hub; or a `DatasetDict`. IMDB's dev may be its test set.
    """
    return {name: _split(find_source(folder, task, name), task, labelled) for name in splits}


def _rows(source: Source, task: Task, labelled: bool) -> Iterator[DataRow]:
    """Check every row; a source without any is refused."""
    names = resolve(source, task, labelled=labelled) if source.columns else {}
    known, good = _lookup(task), 0
    for row in source.rows:
        names = names or resolve(source, task, row.sound(), labelled=labelled)
        texts = {role: row.sound().values.get(column) for role, column in names.items() if role != "label"}
        if task.skip_incomplete and any(map(_is_missing, texts.values())):
            source.skip("rows without a text", row.number)
            continue
        check_row(row, texts, names)
        good += 1
        yield DataRow(row.number, texts, _label(row, names["label"], task, known, source) if labelled else None)
    if not good:
        what = f"{source.name} has no {'complete ' if source.left_out else ''}rows"
        raise DataError(what, rule="a split has at least one row")


def resolve(source: Source, task: Task, first: RawRow | None = None, *, labelled: bool = False) -> dict[str, str]:
    """Normalised column -> the source's name for it, among its columns or those of its first row."""
    existing = tuple(first.values) if first else source.columns
    columns = f"the columns of line {first.number}" if first and source.format == "jsonl" else "the columns"
    plain = source.format == "txt"  # its texts have no names but their roles
    names = {}
    for role, accepted in (dict(task.columns) | ({"label": task.label_columns} if labelled else {})).items():
        found = next((name for name in ((role,) if plain else accepted) if name in existing), None)
        if found is None:
            what = f"{source.name}: there is no column {' or '.join(map(repr, accepted))}"
            remedy = "" if task.folders else f"name one with --{role.replace('_', '-')}"
            remedy = "a .txt file has texts alone; use .csv or .jsonl" if plain else remedy
            shown = ", ".join(map(repr, existing[:30])) or "none"
            raise DataError(what, rule=f"{columns} are {shown}", remedy=remedy)
        names[role] = found
    return names


def check_row(row: RawRow, texts: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Refuse a text that cannot be used; length is no reason, long texts are cut before tokenising."""
    remedy = "correct or remove the row"
    for role, value in texts.items():
        choice = role == "options"
        if choice and (not isinstance(value, list | tuple) or len(value) != CHOICES):
            raise row.error(f"column {names[role]!r} is not a list of {CHOICES} options", value, remedy=remedy)
        for text in value if choice else (value,):
            if problem := _problem(text):
                raise row.error(f"{'an option in ' * choice}column {names[role]!r} {problem}", text, remedy=remedy)


def _problem(text: object) -> str | None:
    if not isinstance(text, str):
        return "is missing" if text is None else "is not text"
    if "\0" in text:
        return "has a NUL character"
    if not text.isascii() and LONE_SURROGATE.search(text):
        return "has a lone surrogate, half of a character"
    return None if text.strip() else "is empty"


def _split(source: Source, task: Task, labelled: bool) -> Split:
    columns: dict[str, list[Any]] = {role: [] for role in (*task.columns, "label", "row")}
    for row in _rows(source, task, labelled):
        for role, value in (*row.texts.items(), ("label", row.label), ("row", row.number)):
            columns[role].append(value)
    features = {role: Sequence(TEXT) if role == "options" else TEXT for role in task.columns}
    if labelled and task.kind == "regression":
        features["label"] = Value("float64")
    elif labelled:
        names = task.labels
        if names is None:
            names = source.label_names or _discovered(source, columns["label"], task)
            index = {name: i for i, name in enumerate(names)}
            columns["label"] = [index[name] for name in columns["label"]]
        features["label"] = ClassLabel(names=list(names))
    features["row"] = Value("int64")
    # Straight to Arrow, in memory: Dataset.from_dict would encode value by value, at twice the time.
    table = pyarrow.Table.from_pydict(columns, schema=Features(features).arrow_schema)
    return Split(Dataset(table), source.name, source.unit, source.notes, sum(map(len, source.left_out.values())))


def _label(row: RawRow, column: str, task: Task, known: dict[str, int], source: Source) -> int | float | str:
    """The index of a class given by index, number or name, its name if classes are not known yet; or a float."""
    value = row.values.get(column)
    if _is_missing(value):
        raise row.error("the label is missing", value, remedy="label or remove the row")
    if task.kind == "regression":
        number, (least, greatest) = _number(row, value), task.label_range or (-math.inf, math.inf)
        if number is None:
            raise row.error("the label is not a number", value, "a regression task has numbers as labels")
        if not least <= number <= greatest:
            raise row.error("the label is out of range", value, f"labels are between {least:g} and {greatest:g}")
        return number
    if task.is_own:  # a source that declares its classes has given the name already
        return str(value) if source.label_names else _class_name(row, value)
    index = known.get(value.strip()) if isinstance(value, str) else None
    if index is None:
        name = _class_name(row, value)
        index = known.get(name if task.exact_labels else name.casefold(), known.get(name))
    if index is None:
        names = task.labels or ()
        shown = [name if task.exact_labels else f"{i} {name}" for i, name in enumerate(names[:10])]
        rule = f"labels are {', '.join(shown + ['…'] * (len(names) > 10))}"
        remedy = "a class must occur in the training data" if task.exact_labels else "give index or name"
        raise row.error("the label is unknown", value, rule, remedy)
    return index


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


def _class_name(row: RawRow, value: object) -> str:
    """The name of a class in a user's own data: text as it is; 1, 1.0 and "1.0" are one class, "1"."""
    number, text = None if isinstance(value, int) else _number(row, value), str(value).strip()
    if number is not None and number != int(number):
        rule = "a class is a name or a whole number"
        raise row.error("the label is not a class", value, rule, "for scores use a regression task")
    if number is not None:
        return text if text.lstrip("+-").isdigit() else str(int(number))
    if not isinstance(value, str | int):
        raise row.error("the label is neither text nor a number", value)
    return text


def _number(row: RawRow, value: object) -> float | None:
    """A number or numeric string as a float, None for anything else; what is not finite is refused."""
    number = float(value) if isinstance(value, str) and NUMBER.fullmatch(value.strip()) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    if not abs(number) <= sys.float_info.max:  # also NaN, and a whole number beyond the floats
        raise row.error("the label is not finite", value, "labels are names or finite numbers")
    return float(number)


def _discovered(source: Source, labels: Iterable[str], task: Task) -> tuple[str, ...]:
    """The class names of a user's own training data: sorted, as numbers if they all are whole numbers."""
    found = set(labels)
    if len(found) > MAX_CLASSES:
        what = f"{source.name}: column {task.label_columns[0]!r} has {len(found):,} different values"
        rule, remedy = f"at most {MAX_CLASSES:,} classes", "check that --label names the label column"
        raise DataError(what, rule=rule, remedy=remedy)
    whole = all(re.fullmatch(r"[+-]?\d{1,18}", name, re.ASCII) for name in found)
    return tuple(sorted(found, key=lambda name: (int(name) if whole else 0, name)))
