"""The training commands: each reads its data, runs a step, and ends with a summary."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from datasets import disable_progress_bars
from tqdm import tqdm
from transformers.utils import logging as transformers_logging
from typing_extensions import override

from powerbert.cli.data import existing_folder, read_training_data
from powerbert.cli.groups import Folders, Reported, Teaching, TrainingData, asked_retention
from powerbert.cli.output import note, show, write_json
from powerbert.errors import require_all
from powerbert.report.tables import evaluation_table, retention_table
from powerbert.training import sandwich, steps
from powerbert.training.data import Data
from powerbert.training.options import AnytimeOptions, Options, RetrainOptions, SearchOptions
from powerbert.training.runner import StepResult
from powerbert.training.trainer import InterruptedRun

Result = TypeVar("Result")
AnyOptions = TypeVar("AnyOptions", bound=Options)


def finetune(folders: Folders, data: TrainingData, options: Options) -> None:
    """Step 1."""
    begun = start(folders, data, options)
    finish(uninterrupted(lambda: steps.finetune(*begun, progress=True)), folders, "fine-tuned")


def search(folders: Folders, data: TrainingData, options: SearchOptions) -> None:
    """Step 2."""
    begun = start(folders, data, options)
    result = uninterrupted(lambda: steps.search(*begun, progress=True))
    finish(result, folders, "before re-training")
    note(f"the learned r as a picture: {result.folder / steps.PICTURE}")


def retrain(folders: Folders, data: TrainingData, options: RetrainOptions, teaching: Teaching) -> None:
    """Step 3."""
    retention = asked_retention(teaching.retention, data.max_length) if teaching.retention else None
    teacher = None if teaching.teacher is None else existing_folder(teaching.teacher)
    begun = start(folders, data, options)
    result = uninterrupted(lambda: steps.retrain(*begun, retention=retention, teacher=teacher, progress=True))
    finish(result, folders, "re-trained")


def anytime(folders: Folders, data: TrainingData, options: AnytimeOptions, table: Reported) -> None:
    """One training for all configurations."""
    learned = [existing_folder(folder) for folder in table.learned or ()]
    begun = start(folders, data, options)
    result, rows = uninterrupted(
        lambda: sandwich.anytime(*begun, learned=learned, budgets=table.shares(), progress=True)
    )
    if folders.shows:
        show(evaluation_table({row["name"]: row for row in rows}))
    note(f"wrote {result.folder}; apply a configuration of the table with evaluate --retention or apply()")
    if folders.json is not None:
        write_json(folders.json, rows)


def start(folders: Folders, source: TrainingData, options: AnyOptions) -> tuple[Path, Data, Path, AnyOptions]:
    """Read the data; returns what a step takes. Nothing is written yet."""
    model = existing_folder(folders.model)
    require_training()
    quiet()
    return model, read_training_data(source, options.seed), Path(folders.output), options


def uninterrupted(work: Callable[[], Result]) -> Result:
    """Run a step; one that a signal stopped has saved its state, and says how to go on."""
    try:
        return work()
    except InterruptedRun as stop:
        note(str(stop))
        raise KeyboardInterrupt from None


def finish(result: StepResult, folders: Folders, title: str) -> None:
    """Show the result and write its figures."""
    if folders.shows:
        show(evaluation_table({title: result.evaluation.to_json()}))
        if result.retention is not None:
            show(retention_table(result.retention))
    if result.seconds:
        note(f"trained for {result.seconds:,.0f} s, {result.tokens_per_second:,.0f} real tokens per second")
    note(f"wrote {result.folder}")
    if folders.json is not None:
        write_json(folders.json, figures(result))


def figures(result: StepResult) -> dict[str, Any]:
    """A step's result for JSON."""
    return {
        "folder": str(result.folder),
        "evaluation": result.evaluation.to_json(),
        "retention": result.retention.to_json() if result.retention else None,
        "seconds": result.seconds,
        "tokens_per_second": result.tokens_per_second,
        "skipped": result.skipped,
    }


class Notes(logging.Handler):
    """What the steps log, as notes above the bar."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        warning = "warning: " if record.levelno >= logging.WARNING else ""
        with tqdm.external_write_mode(file=sys.stderr):
            note(warning + record.getMessage())


def quiet() -> None:
    """Leave the terminal to our own bar and notes: the libraries draw a bar for every file they write."""
    logs: Any = transformers_logging
    disable_progress_bars()
    logs.disable_progress_bar()
    ours = logging.getLogger("powerbert.training")
    ours.setLevel(logging.INFO)
    if not any(isinstance(handler, Notes) for handler in ours.handlers):
        ours.addHandler(Notes())


def require_training() -> None:
    """Refuse in one line where the training libraries are not installed."""
    require_all("training and evaluating need", ("accelerate", "datasets", "scipy", "matplotlib"), "train")
