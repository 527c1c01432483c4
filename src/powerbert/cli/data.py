"""The data that a command works on, and the model that answers it, from its flags."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from powerbert.cli.answering import Answering, EvaluateFlags, ScoreFlags
from powerbert.cli.flags import BenchFlags, Columns, ExportFlags, TrainingData, asked_retention
from powerbert.cli.opening import existing_folder, open_answering
from powerbert.cli.output import note
from powerbert.engines.engine import Engine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import DataError, PowerBertError, UnsupportedModelError
from powerbert.folders.manifest import glance
from powerbert.modeling.apply import apply
from powerbert.modeling.limits import CHOICE
from powerbert.tasks.files import file_format, has_pairs
from powerbert.tasks.readers import read_split, read_splits, task_data
from powerbert.tasks.registry import find_task, own_task
from powerbert.tasks.task import Split, Task, same_labels
from powerbert.training.data import Data

Asking = EvaluateFlags | ScoreFlags | ExportFlags | BenchFlags


def task_of(columns: Columns, engine: Engine | None = None, data: str | None = None) -> Task:
    """The paper's task of that name, or one of the user's own columns.

    A model that answers says which classes there are, and a file with one text per line needs no columns.
    """
    text, pair = columns.text, columns.text_pair
    if columns.task is not None:
        if any((text, pair, columns.label, columns.regression, columns.metric)):
            remedy = "leave out --text, --text-pair, --label, --regression and --metric, or --task"
            raise DataError("--task brings its own columns, labels and metric", got=columns.task, remedy=remedy)
        return find_task(columns.task)
    if text is None and data is not None and os.path.isfile(data) and file_format(Path(data)) == "txt":
        text, pair = "text", "text_pair" if has_pairs(Path(data)) else None
    if text is None:
        raise DataError("which text?", remedy="give --task NAME, or --text COL for your own files")
    names = () if engine is None else _labels(engine)
    more: Any = {"kind": "regression" if columns.regression or len(names) == 1 else "classification"}
    more |= {"labels": names if len(names) > 1 else None, "metric": columns.metric}
    return own_task(text, pair, columns.label or "label", **more)


def open_model(asked: Answering, columns: Columns, data: str | None = None) -> tuple[Engine, Task]:
    """The engine that answers, with the asked retention and N, and the task it is asked about."""
    longest = columns.max_length
    retention = asked_retention(asked.retention, longest)
    # A graph carries its own retention; a folder that holds one holds the model as well.
    own = retention is not None and glance(existing_folder(asked.model)).graphs
    engine = open_answering(asked, TorchEngine.name if own and asked.engine is None else asked.engine)
    if isinstance(engine, TorchEngine):
        if longest is not None:
            engine.tokenizer.model_max_length = longest
        model = engine.model if retention is None else apply(engine.model, retention)
        engine = TorchEngine(model, engine.tokenizer)  # anew, for its limits may be others
    elif retention is not None:
        what = "--retention is for saved models; an exported one carries its own"
        raise PowerBertError(what, got=asked.model, remedy="leave it out, or export with it")
    elif longest is not None:
        engine.limits = engine.limits._replace(longest=min(longest, engine.limits.longest))
    task = task_of(columns, engine, data)
    if not _answers(engine, task):
        got = f"{len(engine.labels)} labels: {', '.join(list(engine.labels.values())[:5])}"
        remedy = "run finetune first, or name the task it was trained on"
        what = columns.task or f"texts of your own by {task.kind}"
        raise UnsupportedModelError(f"{asked.model} does not answer {what}", got=got, remedy=remedy)
    return engine, task


def _labels(engine: Engine) -> tuple[str, ...]:
    return tuple(engine.labels[i] for i in sorted(engine.labels))


def _answers(engine: Engine, task: Task) -> bool:
    """Whether this is the task's head: the same labels in order, one number, or a score for each choice."""
    choice = isinstance(engine, TorchEngine) and type(engine.model).__name__.endswith(CHOICE)
    if task.kind == "multiple-choice" or choice:
        return task.kind == "multiple-choice" and choice
    return len(engine.labels) == 1 if task.kind == "regression" else same_labels(_labels(engine), task.labels or ())


def is_task_folder(data: str, columns: Columns) -> bool:
    """Whether the data is that of one of the paper's tasks as a whole, of which a split is asked for."""
    return columns.task is not None and (data == "hub" or os.path.isdir(data))


def read_rows(asked: Asking, columns: Columns, task: Task, default: str, *, labelled: bool) -> Split:
    """The rows of --data, or of a split of --task; a seeded part of them if one was asked for."""
    data, name = asked.data or "", asked.split or default
    if is_task_folder(data, columns):
        return task_data(data, task, (name,), labelled=labelled)[name].part(asked.rows, 0)
    if asked.split is not None:
        raise DataError("--split belongs to a folder of --task", got=data, remedy="leave it out, or give that folder")
    return read_split(data, task, labelled=labelled).part(asked.rows, 0)


def read_training_data(source: TrainingData, seed: int) -> Data:
    """Read and check both splits; say what a person should know about them."""
    task, splits = read_labelled(source, seed)
    if "dev" not in splits:
        raise DataError("where is dev?", remedy="give --dev FILE beside --train")
    data = Data.of(task, splits, source.max_length)
    tell_findings(data)
    return data


def read_labelled(source: TrainingData, seed: int) -> tuple[Task, dict[str, Split]]:
    """The splits of a task's folder, or of the user's own files, of which dev may be missing; parts as asked for."""
    task = task_of(source)
    splits: Mapping[str, Split]
    if source.train is not None and source.data is None:
        files = {"train": source.train} | ({} if source.dev is None else {"dev": source.dev})
        task, splits = read_splits(files, task)
    elif source.task is not None and source.data is not None and source.train is source.dev is None:
        splits = task_data(source.data, task)
    else:
        raise DataError("where is the data?", remedy="give --task NAME --data FOLDER, or --train FILE --dev FILE")
    asked = {"train": (source.rows, seed), "dev": (source.dev_rows, 0)}
    return task, {name: split.part(*asked[name]) for name, split in splits.items()}


def tell_findings(data: Data) -> None:
    """Say what a person should know about the data."""
    found = data.findings
    for line in (*found.lines(), *found.notes, *(f"warning: {line}" for line in found.warnings)):
        note(line)
