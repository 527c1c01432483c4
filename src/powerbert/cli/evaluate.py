"""`powerbert evaluate`: metric and real word-vectors of a model on labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import Dataset

from powerbert.cli.data import existing_folder, labels_of, part, task_of
from powerbert.cli.groups import Columns, EvaluateFlags, ExportFlags, PredictFlags, asked_retention
from powerbert.cli.output import note, progress, show, working, write_json
from powerbert.cli.training import evaluation_table, require_training
from powerbert.errors import DataError, UnsupportedModelError
from powerbert.modeling.apply import apply, retention_of
from powerbert.modeling.limits import trained_length
from powerbert.modeling.packing import pack
from powerbert.modeling.storage import load
from powerbert.tasks.readers import read_split, task_data
from powerbert.tasks.registry import TASKS
from powerbert.tasks.task import Task
from powerbert.training.data import Data, encode
from powerbert.training.evaluation import evaluate as score
from powerbert.training.heads import has_head


def evaluate(asked: EvaluateFlags, columns: Columns) -> None:
    """Score a model with the task's own metric."""
    model, tokenizer, task, split = opened(asked, columns, labelled=True, split="dev")
    length = columns.max_length or trained_length(Path(asked.model))
    encoded = encode(Data.of(task, {"dev": split}), model, tokenizer, length)
    note(encoded.why)
    result = score(
        model, encoded.splits["dev"], task, tokenizer, batch_size=asked.batch_size, progress=progress
    )
    if asked.shows:
        show(evaluation_table({asked.model: result}))
    if asked.json is not None:
        retention = retention_of(model)
        write_json(
            asked.json, result.to_json() | {"retention": str(retention) if retention is not None else None}
        )


def opened(
    asked: EvaluateFlags | PredictFlags | ExportFlags, columns: Columns, *, labelled: bool, split: str
) -> tuple[Any, Any, Task, Dataset]:
    """Load the model with the asked retention, and read the split it is asked about."""
    folder = existing_folder(asked.model)
    retention = asked_retention(asked.retention, columns.max_length) if asked.retention else None
    require_training()
    with working("loading the model"):
        model, tokenizer = load(folder)
    task = task_of(columns, labels_of(model))
    if not has_head(model, task):
        raise UnsupportedModelError(
            f"{asked.model} does not answer {task.name}",
            got=f"{type(model).__name__} with {model.config.num_labels} labels",
            remedy="run finetune first, or name the task it was trained on",
        )
    if retention is not None:
        apply(model, retention)
    return (
        pack(model),
        tokenizer,
        task,
        part(_split(asked.data or "", asked.split, task, labelled, split), asked.rows, 0),
    )


def _split(data: str, asked: str | None, task: Task, labelled: bool, default: str) -> Dataset:
    if task.name in {known.name for known in TASKS} and (data == "hub" or Path(data).is_dir()):
        split = asked or default
        return task_data(data, task, (split,), labelled=labelled)[split]
    if asked is not None:
        raise DataError("--split belongs to a folder of --task", got=data)
    return read_split(data, task, labelled=labelled)
