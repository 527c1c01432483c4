"""What the training commands share: their folders, the run they start, the summary they end with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from powerbert.cli.data import TrainingData, existing_folder
from powerbert.cli.output import STANDARD_OUTPUT, check_target, note, show, write_json
from powerbert.errors import MissingExtraError

if TYPE_CHECKING:
    from rich.table import Table

    from powerbert.training.evaluation import Evaluation
    from powerbert.training.options import Options
    from powerbert.training.steps import Run, StepResult

Result = TypeVar("Result")
Given = dict[str, Any]


@dataclass(frozen=True)
class Folders:
    """Where a step starts and where its result goes."""

    model: Annotated[str, "Model folder to start from.", "FOLDER"]
    output: Annotated[str, "Folder for the result; the same command goes on with a stopped run.", "FOLDER"]
    json: Annotated[str | None, 'Write the figures to this file; "-" is standard output.', "FILE"] = None


def start(step: str, kind: type[Options], folders: Given, data: Given, options: Given) -> Run:
    """Check what was asked, read the data, and frame the step; nothing is written yet."""
    asked, source = Folders(**folders), TrainingData(**data)
    if asked.json is not None:
        check_target(asked.json, "--json")
    model = existing_folder(asked.model)
    require_training()
    quiet()
    from powerbert.training.options import options_for
    from powerbert.training.steps import Run

    task = source.find()
    chosen = options_for(kind, task, options)
    content = source.read(chosen.seed)
    return Run(
        step,
        model,
        content,
        Path(asked.output),
        chosen,
        source.max_length,
        progress=True,
        tell=note,
    )


def uninterrupted(work: Callable[[], Result]) -> Result:
    """Run a step; one that a signal stopped has saved its state, and says how to go on."""
    from powerbert.training.trainer import InterruptedRun

    try:
        return work()
    except InterruptedRun as stop:
        note(str(stop))
        raise KeyboardInterrupt from None


def finish(result: StepResult, folders: Given, title: str) -> None:
    """Show the result and write its figures."""
    from powerbert.report.retention_table import retention_table

    if folders.get("json") != STANDARD_OUTPUT:
        show(evaluation_table({title: result.evaluation}))
        if result.retention is not None:
            show(retention_table(result.retention))
    if result.seconds:
        note(f"trained for {result.seconds:,.0f} s, {result.tokens_per_second:,.0f} real tokens per second")
    note(f"wrote {result.folder}")
    if folders.get("json") is not None:
        write_json(folders["json"], figures(result))


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
    from rich.table import Table

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
    from datasets import disable_progress_bars
    from transformers.utils import logging

    logs: Any = logging
    disable_progress_bars()
    logs.disable_progress_bar()


def require_training() -> None:
    """Refuse in one line where the training libraries are not installed."""
    from importlib.util import find_spec

    missing = [
        name for name in ("accelerate", "datasets", "sklearn", "matplotlib") if find_spec(name) is None
    ]
    if missing:
        raise MissingExtraError(
            f"training and evaluating need {', '.join(missing)}",
            remedy='pip install "powerbert[train]", or in a clone: pip install -e ".[train]"',
        )
