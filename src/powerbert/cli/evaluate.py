"""`powerbert evaluate`: metric and real word-vectors of a model on labelled data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from powerbert.cli.data import Columns, existing_folder, labels_of, part
from powerbert.cli.flags import command
from powerbert.cli.output import STANDARD_OUTPUT, check_target, note, progress, show, working, write_json
from powerbert.cli.retention import asked_retention
from powerbert.cli.training import Given, evaluation_table, require_training
from powerbert.errors import DataError, UnsupportedModelError

if TYPE_CHECKING:
    from powerbert.tasks.task import Split, Task


@dataclass(frozen=True)
class Asked:
    """Which model answers what, and how."""

    model: Annotated[str, "Model folder.", "FOLDER"]
    data: Annotated[str, "The data file, or with --task the folder that holds the task.", "FILE"]
    split: Annotated[str | None, "Split of --task, where --data is a folder; by default dev.", "NAME"] = None
    retention: Annotated[
        str | None, 'Fractions ("0.9,0.8,...") or counts of N, instead of what the folder carries.', "LIST"
    ] = None
    rows: Annotated[int | None, "A part of this many rows, drawn with seed 0.", "ROWS"] = None
    batch_size: Annotated[int, "Inputs of like length that are answered at once."] = 32
    json: Annotated[str | None, 'Write the figures to this file; "-" is standard output.', "FILE"] = None


def _evaluate(flags: Given, columns: Given) -> None:
    """Score a model with the task's own metric, a bootstrap interval and its real word-vectors.

    Example:

        powerbert evaluate --model three --data dev.csv --text review --label stars
    """
    asked = Asked(**flags)
    if asked.json is not None:
        check_target(asked.json, "--json")
    model, tokenizer, task, split = opened(asked, Columns(**columns), labelled=True, split="dev")
    from powerbert.modeling.apply import retention_of
    from powerbert.training.data import Data, encode
    from powerbert.training.evaluation import evaluate as score
    from powerbert.training.record import trained_length

    length = columns.get("max_length") or trained_length(Path(asked.model))
    encoded = encode(Data.of(task, {"dev": split}), model, tokenizer, length)
    note(encoded.why)
    result = score(
        model, encoded.splits["dev"], task, tokenizer, batch_size=asked.batch_size, progress=progress
    )
    if asked.json != STANDARD_OUTPUT:
        show(evaluation_table({asked.model: result}))
    if asked.json is not None:
        retention = retention_of(model)
        write_json(
            asked.json, result.to_json() | {"retention": str(retention) if retention is not None else None}
        )


def opened(asked: Any, columns: Columns, *, labelled: bool, split: str) -> tuple[Any, Any, Task, Split]:
    """Load the model with the asked retention, and read the split it is asked about."""
    folder = existing_folder(asked.model)
    retention = asked_retention(asked.retention, columns.max_length) if asked.retention else None
    require_training()
    from powerbert.modeling.apply import apply
    from powerbert.modeling.packing import pack
    from powerbert.modeling.storage import load
    from powerbert.training.heads import has_head

    with working("loading the model"):
        model, tokenizer = load(folder)
    task = columns.find(labels_of(model))
    if not has_head(model, task):
        raise UnsupportedModelError(
            f"{asked.model} does not answer {task.name}",
            got=f"{type(model).__name__} with {model.config.num_labels} labels",
            remedy="run finetune first, or name the task it was trained on",
        )
    if retention is not None:
        apply(model, retention)
    return pack(model), tokenizer, task, part(_split(asked, task, labelled, split), asked.rows, 0)


def _split(asked: Any, task: Task, labelled: bool, split: str) -> Split:
    from powerbert.tasks.readers import read_split, task_data
    from powerbert.tasks.registry import TASKS

    if task.name in {known.name for known in TASKS} and (asked.data == "hub" or Path(asked.data).is_dir()):
        split = asked.split or split
        return task_data(asked.data, task, (split,), labelled=labelled)[split]
    if asked.split is not None:
        raise DataError("--split belongs to a folder of --task", got=asked.data)
    return read_split(asked.data, task, labelled=labelled)


evaluate = command(_evaluate, Asked, Columns)
