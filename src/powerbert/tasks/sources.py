"""Where data is: a file, a `datasets` object, the hub, or a folder as its authors publish it.

GLUE's download, aclImdb, RACE and the MSR paraphrase corpus (MRPC) are found by the names they come with.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from datasets import ClassLabel, Dataset, Features, load_dataset
from pyarrow import parquet

from powerbert.errors import DataError, one_line
from powerbert.tasks.files import EXTENSIONS, RawRow, Source, file_format, read_lines, text_source
from powerbert.tasks.task import ROWS_AT_ONCE, Task

DataSource: TypeAlias = str | Path | Dataset
ENDINGS = (".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", "")  # of a split; a folder has none
HUB = "hub:"
MSR = "msr_paraphrase_{}.txt"
SMALL_FILES = {"IMDB": ("neg", "pos"), "RACE": ("middle", "high")}  # the folders of a split of many small files


def open_source(data: DataSource, task: Task) -> Source:
    """Open one split: a path, a split's folder of aclImdb or RACE, an address of the hub, or a dataset."""
    if isinstance(data, str) and data.startswith(HUB):
        return _hub(data, task)
    if not isinstance(data, str | Path):
        return _dataset(data, task)
    path = Path(data)
    if "\0" in str(data):
        raise DataError("a path has a NUL character", got=str(data))
    if os.path.isdir(path):
        return _folder(path, task)
    if task.name == "MRPC" and path.name.startswith("msr_paraphrase_") and os.path.isfile(path):
        return text_source(path, task, "tsv")
    if isinstance(data, str) and not path.suffix and not os.path.exists(path):
        rule, remedy = f"files are {EXTENSIONS}", f"for the hub write {HUB}{data}"
        raise DataError(f"{data} does not exist", rule=rule, remedy=remedy)
    form = file_format(path)
    return _parquet(path, task) if form == "parquet" else text_source(path, task, form)


def find_source(folder: Any, task: Task, split: str) -> Source:
    """Open one split of a task in a folder of the task, in a folder of all tasks, or on the hub."""
    if split not in task.files:
        raise DataError("unknown split", got=split, rule=f"splits are {', '.join(task.files)}")
    names = task.files[split]
    if isinstance(folder, Mapping):  # a DatasetDict
        found = next((name for name in (split, *names) if name in folder), None)
        if found is None:
            raise DataError(f"there is no split {split!r}", got=list(folder), rule=f"{task.name} needs it")
        return _dataset(folder[found], task)
    if folder == "hub" and task.hub:
        return _hub(f"{HUB}{task.hub}@{names[-1]}", task)  # the hub's name comes last
    root = Path(folder)
    if not os.path.isdir(root):
        raise DataError(f"{root} is not a folder", remedy=f"give the folder that holds {task.name}")
    for home in [root / name for name in task.folders if (root / name).is_dir()] or [root]:
        for stem in names:
            paths = [path for path in (home / f"{stem}{ending}" for ending in ENDINGS) if path.exists()]
            if len(paths) > 1:
                got = ", ".join(path.name for path in paths[:3])
                remedy = "remove one, or name the files with --train and --dev"
                raise DataError(f"{home} has two files for {split}", got=got, remedy=remedy)
            if paths:
                return open_source(paths[0], task)
        if task.name == "MRPC" and (home / MSR.format("train")).is_file():
            return _msr(home, task, split)
    rule = f"files are {', '.join(names)} with {EXTENSIONS}"
    raise DataError(f"{root} has no {split} data of {task.name}", rule=rule, remedy="check the folder")


def _parquet(path: Path, task: Task) -> Source:
    """Read the columns of a Parquet file that the task can use."""
    file, features = open_parquet(path), {}
    names = file.schema_arrow.names
    with suppress(ValueError, NotImplementedError):  # an Arrow type that datasets does not know
        features = Features.from_arrow_schema(file.schema_arrow)
    return _table(str(path), parquet_batches(path, file, _usable(names, task)), names, features, task)


def open_parquet(path: Path) -> parquet.ParquetFile:
    """Open a Parquet file; its rows are not read yet."""
    with one_line(f"{path} is not a Parquet file", "write it again, or use .jsonl", DataError):
        return parquet.ParquetFile(path)


def parquet_batches(path: Path, file: parquet.ParquetFile, columns: list[str] | None = None) -> Iterator[Any]:
    """The rows of a Parquet file as Arrow batches, with some of its columns or all of them."""
    with one_line(f"{path}: the Parquet file is damaged", kind=DataError):
        yield from file.iter_batches(batch_size=ROWS_AT_ONCE, columns=columns)


def _dataset(dataset: object, task: Task, name: str = "the dataset") -> Source:
    """Read the columns of a `datasets.Dataset` that the task can use."""
    if not isinstance(dataset, Dataset):
        what, remedy = "a split is a path or a datasets.Dataset", "pass one split, such as dataset['train']"
        raise DataError(what, got=type(dataset).__name__, remedy=remedy)
    used = dataset.with_format("arrow").select_columns(_usable(dataset.column_names, task))
    return _table(name, used.iter(batch_size=ROWS_AT_ONCE), dataset.column_names, dataset.features, task)


def _hub(address: str, task: Task) -> Source:
    """Load `hub:NAME[:CONFIGURATION][@SPLIT]`, such as `hub:nyu-mll/glue:sst2@validation`.

    The prefix is there so that a mistyped path never becomes a request to a server. Dataset scripts are never run.
    """
    name, _, split = address.removeprefix(HUB).partition("@")
    name, _, configuration = name.partition(":")
    if not name or name.startswith((".", "/")):
        raise DataError("not a dataset of the hub", got=address, rule="write hub:NAME, hub:NAME:CONFIGURATION@SPLIT")
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    remedy = "HF_HUB_OFFLINE is set; unset it" if offline else "check the name and the network,"
    with one_line(f"{address} cannot be loaded from the Hugging Face hub", f"{remedy} or give local files", DataError):
        dataset = load_dataset(name, configuration or None, split=split or "train")
    return _dataset(dataset, task, address)


def _usable(names: Sequence[str], task: Task) -> list[str]:
    accepted = {name for accepted in task.columns.values() for name in accepted} | set(task.label_columns)
    return [name for name in names if name in accepted]


def _table(
    name: str, batches: Iterator[Any], columns: Sequence[str], features: Mapping[str, Any], task: Task
) -> Source:
    """Number the rows of Arrow batches from 1, and turn declared class indices into the names they stand for."""
    label = next((column for column in task.label_columns if column in columns), "")
    names = tuple(features[label].names) if isinstance(features.get(label), ClassLabel) else None

    def rows() -> Iterator[RawRow]:
        for number, values in enumerate((values for batch in batches for values in batch.to_pylist()), 1):
            if names is not None and isinstance(index := values.get(label), int):
                # -1 is how the hub marks a row without a label.
                values[label] = names[index] if 0 <= index < len(names) else None
            yield RawRow(number, values, f"{name}, row {number}")

    return Source(name, rows(), unit="row", columns=tuple(columns), label_names=names)


def _folder(path: Path, task: Task) -> Source:
    """A split of aclImdb, a review per file in neg/ and pos/, or of RACE, an article per file in middle/ and high/."""
    inner = [path / name for name in SMALL_FILES.get(task.name, ()) if (path / name).is_dir()]
    if task.name == "RACE" and not inner and any(path.glob("*.txt")):
        inner = [path]
    if not inner or (task.name == "IMDB" and len(inner) < 2):
        rule = f"a split of {task.name} is one file ({EXTENSIONS})"
        remedy = "name the file in it, or use --task with a folder of the whole task"
        raise DataError(f"{path} is a folder", rule=rule, remedy=remedy)
    read = _questions if task.name == "RACE" else _review
    found = (row for folder in inner for file in sorted(folder.glob("*.txt"), key=_numbers) for row in read(file))
    return Source(str(path), (RawRow(i, *row) for i, row in enumerate(found, 1)), unit="row")


def _numbers(path: Path) -> tuple[list[int], str]:
    """A file's place by the numbers in its name, whatever the order of the file system."""
    return [int(digits) for digits in re.findall(r"\d{1,18}", path.name, re.ASCII)], path.name


def _review(path: Path) -> Iterator[tuple[dict[str, object], str]]:
    yield {"text": _whole(path), "label": path.parent.name}, str(path)


def _questions(path: Path) -> Iterator[tuple[dict[str, object], str]]:
    """The questions of one article as rows, each with its place."""
    rule = "JSON with article, and as many questions as options and answers"
    with one_line(f"{path}: not a RACE article", rule, DataError):
        page = json.loads(_whole(path))
        lists = [page["questions"], page["options"], page["answers"]]
        if not all(isinstance(part, list) for part in lists):
            raise TypeError("questions, options and answers are lists")
        rows = [dict(zip(("question", "options", "answer"), row, strict=True)) for row in zip(*lists, strict=True)]
    for i, row in enumerate(rows, 1):
        yield row | {"article": page.get("article")}, f"{path}, question {i}"


def _whole(path: Path) -> str:
    """The whole of a small UTF-8 file, without BOM."""
    return "".join(line for _, line in read_lines(path))


def _msr(home: Path, task: Task, split: str) -> Source:
    """MRPC before GLUE's script ran: `dev_ids.tsv` names the dev pairs, else the test file is dev."""
    ids = home / "dev_ids.tsv"
    if split == "test" or (split == "dev" and not ids.is_file()):
        return open_source(home / MSR.format("test"), task)
    source = open_source(home / MSR.format("train"), task)
    if ids.is_file():
        dev = {tuple(line.rstrip("\r\n").split("\t")) for _, line in read_lines(ids)}
        pairs = (((row.values.get("#1 ID"), row.values.get("#2 ID")), row) for row in source.rows)
        source.rows = (row for pair, row in pairs if (pair in dev) is (split == "dev"))
    return source
