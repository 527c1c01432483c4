"""The training commands: each reads its data, runs a step, and ends with a summary."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from datasets import disable_progress_bars
from transformers.utils import logging as transformers_logging
from typing_extensions import override

from powerbert.cli.data import read_training_data
from powerbert.cli.flags import Folders, Reported, Teaching, TrainingData, asked_retention
from powerbert.cli.opening import existing_folder
from powerbert.cli.output import note, show, write_json
from powerbert.errors import require_all
from powerbert.report.tables import evaluation_table, retention_table
from powerbert.training import steps
from powerbert.training.data import Data
from powerbert.training.options import AnytimeOptions, Options, RetrainOptions, SearchOptions
from powerbert.training.runner import StepResult
from powerbert.training.trainer import InterruptedRun

Result = TypeVar("Result")
AnyOptions = TypeVar("AnyOptions", bound=Options)


def finetune(folders: Folders, data: TrainingData, options: Options) -> None:
    """Step 1."""
    _finish(uninterrupted(steps.finetune, *_start(folders, data, options)), folders, "fine-tuned")


def search(folders: Folders, data: TrainingData, options: SearchOptions) -> None:
    """Step 2."""
    result = uninterrupted(steps.search, *_start(folders, data, options))
    _finish(result, folders, "before re-training")
    note(f"the learned r as a picture: {result.folder / steps.PICTURE}")


def retrain(folders: Folders, data: TrainingData, options: RetrainOptions, teaching: Teaching) -> None:
    """Step 3."""
    retention = asked_retention(teaching.retention, data.max_length)
    teacher = None if teaching.teacher is None else existing_folder(teaching.teacher)
    begun = _start(folders, data, options)
    _finish(uninterrupted(steps.retrain, *begun, retention=retention, teacher=teacher), folders, "re-trained")


def anytime(folders: Folders, data: TrainingData, options: AnytimeOptions, table: Reported) -> None:
    """One training for several budgets."""
    result, rows = uninterrupted(steps.anytime, *_start(folders, data, options), budgets=table.shares())
    if folders.shows:
        show(evaluation_table({row["name"]: row for row in rows}))
    note(f"wrote {result.folder}; choose a budget with --budget, or pipeline(folder, budget=...)")
    write_json(folders.json, rows)


def _start(folders: Folders, source: TrainingData, options: AnyOptions) -> tuple[Path, Data, Path, AnyOptions]:
    """Read the data; returns what a step takes. Nothing is written yet."""
    model = existing_folder(folders.model)
    prepare()
    return model, read_training_data(source, options.seed), Path(folders.output), options


def uninterrupted(step: Callable[..., Result], *arguments: Any, **more: Any) -> Result:
    """Run a step; one that a signal stopped has saved its state, and says how to go on."""
    try:
        return step(*arguments, **more, progress=True)
    except InterruptedRun as stop:
        note(str(stop))
        raise KeyboardInterrupt from None


def _finish(result: StepResult, folders: Folders, title: str) -> None:
    """Show the result and write its figures."""
    evaluation, retention = result.evaluation.to_json(), result.retention
    if folders.shows:
        show(evaluation_table({title: evaluation}))
        if retention is not None:
            show(retention_table(retention))
    if result.seconds:
        note(f"trained for {result.seconds:,.0f} s, {result.tokens_per_second:,.0f} real tokens per second")
    note(f"wrote {result.folder}")
    figures: dict[str, Any] = {"folder": str(result.folder), "evaluation": evaluation}
    figures |= {"retention": None if retention is None else retention.to_json(), "seconds": result.seconds}
    write_json(folders.json, figures | {"tokens_per_second": result.tokens_per_second, "skipped": result.skipped})


class Notes(logging.Handler):
    """What the steps log, as notes above the bar."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        note(("warning: " if record.levelno >= logging.WARNING else "") + record.getMessage())


def prepare() -> None:
    """Refuse where the training libraries are not installed, and leave the terminal to our own bar and notes.

    The libraries draw a bar for every file they write.
    """
    require_all("training and evaluating need", ("accelerate", "datasets", "scipy", "matplotlib"), "train")
    logs: Any = transformers_logging
    disable_progress_bars()
    logs.disable_progress_bar()
    ours = logging.getLogger("powerbert.training")
    ours.setLevel(logging.INFO)
    if not any(isinstance(handler, Notes) for handler in ours.handlers):
        ours.addHandler(Notes())
