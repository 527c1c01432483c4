"""The training commands: each reads its data, runs a step, and ends with a summary."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from datasets import disable_progress_bars
from rich.table import Table
from transformers.utils import logging

from powerbert.cli.data import existing_folder, read_training_data
from powerbert.cli.groups import Folders, Reported, Teaching, TrainingData, asked_retention
from powerbert.cli.output import note, show, write_json
from powerbert.errors import MissingExtraError
from powerbert.report.retention_table import retention_table
from powerbert.training import steps
from powerbert.training.anytime import anytime as recipe
from powerbert.training.evaluation import Evaluation
from powerbert.training.options import AnytimeOptions, Options, RetrainOptions, SearchOptions
from powerbert.training.steps import PICTURE, Run, StepResult
from powerbert.training.trainer import InterruptedRun

Result = TypeVar("Result")


def finetune(folders: Folders, data: TrainingData, options: Options) -> None:
    """Step 1."""
    run = start("finetune", folders, data, options)
    finish(uninterrupted(lambda: steps.finetune(run)), folders, "fine-tuned")


def search(folders: Folders, data: TrainingData, options: SearchOptions) -> None:
    """Step 2."""
    run = start("search", folders, data, options)
    result = uninterrupted(lambda: steps.search(run))
    finish(result, folders, "before re-training")
    note(f"the learned r as a picture: {result.folder / PICTURE}")


def retrain(folders: Folders, data: TrainingData, options: RetrainOptions, teaching: Teaching) -> None:
    """Step 3."""
    retention = asked_retention(teaching.retention, data.max_length) if teaching.retention else None
    teacher = None if teaching.teacher is None else existing_folder(teaching.teacher)
    run = start("retrain", folders, data, options)
    finish(uninterrupted(lambda: steps.retrain(run, retention, teacher)), folders, "re-trained")


def anytime(folders: Folders, data: TrainingData, options: AnytimeOptions, table: Reported) -> None:
    """One training for all configurations."""
    learned: list[Path] = [existing_folder(folder) for folder in table.learned or ()]
    run = start("anytime", folders, data, options)
    result, rows = uninterrupted(lambda: recipe(run, learned, table.shares()))
    if folders.shows:
        show(evaluation_table({row["name"]: Evaluation.from_json(row) for row in rows}))
    note(f"wrote {result.folder}; apply a configuration of the table with evaluate --retention or apply()")
    if folders.json is not None:
        write_json(folders.json, rows)


def start(step: str, folders: Folders, source: TrainingData, options: Options) -> Run:
    """Read the data and frame the step; nothing is written yet."""
    model = existing_folder(folders.model)
    require_training()
    quiet()
    data = read_training_data(source, options.seed)
    output = Path(folders.output)
    return Run(step, model, data, output, options, source.max_length, progress=True, tell=note)


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
        show(evaluation_table({title: result.evaluation}))
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


def evaluation_table(evaluations: dict[str, Evaluation]) -> Table:
    """Metric, interval and real word-vectors, one row per model or configuration."""
    first = next(iter(evaluations.values()))
    table = Table(title=f"{first.rows:,} rows, real word-vectors without padding")
    for column in ("", first.metric, "95 % interval", "word-vectors", "of the untouched"):
        table.add_column(column, justify="right" if column else "left")
    for name, evaluation in evaluations.items():
        low, high = evaluation.interval
        table.add_row(
            name,
            f"{100 * evaluation.value:.2f}",
            f"{100 * low:.1f} to {100 * high:.1f}",
            f"{evaluation.word_vectors:,}",
            f"{100 * evaluation.work:.1f} %",
        )
    return table


def quiet() -> None:
    """Leave the terminal to our own bar: transformers and datasets draw one for every file they write."""
    logs: Any = logging
    disable_progress_bars()
    logs.disable_progress_bar()


def require_training() -> None:
    """Refuse in one line where the training libraries are not installed."""
    missing = [
        name for name in ("accelerate", "datasets", "sklearn", "matplotlib") if find_spec(name) is None
    ]
    if missing:
        raise MissingExtraError(
            f"training and evaluating need {', '.join(missing)}",
            remedy='pip install "powerbert[train]", or in a clone: pip install -e ".[train]"',
        )
