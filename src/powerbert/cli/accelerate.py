"""`powerbert accelerate`: from a classifier and a goal to the fastest classifier that keeps it."""

from pathlib import Path
from typing import Any

from rich.table import Table

from powerbert.acceleration.parts import Parts, divide, parts_of_texts
from powerbert.acceleration.recipe import REPORT_PAGE, run_acceleration
from powerbert.cli.data import read_labelled, task_of, tell_findings
from powerbert.cli.flags import Folders, Goals, TrainingData
from powerbert.cli.opening import existing_folder
from powerbert.cli.output import note, show, write_json
from powerbert.cli.training import prepare, uninterrupted
from powerbert.errors import DataError
from powerbert.report.tables import plain_table, retention_table
from powerbert.retention import RetentionConfiguration
from powerbert.training.options import AccelerateOptions


def accelerate(folders: Folders, goals: Goals, data: TrainingData, options: AccelerateOptions) -> None:
    """Make a classifier faster within a goal."""
    model = existing_folder(folders.model)
    prepare()
    parts = _parts(model, goals, data, options.seed)
    tell_findings(parts.data)
    figures = uninterrupted(run_acceleration, model, parts, goals.goal(), Path(folders.output), options)
    for each in outcome(figures) if folders.shows else ():
        show(each)
    note(f"wrote {folders.output}; the report for people is {Path(folders.output) / REPORT_PAGE}")
    write_json(folders.json, figures)


def _parts(model: Path, goals: Goals, data: TrainingData, seed: int) -> Parts:
    """The rows that train, choose and judge."""
    if goals.texts is None:
        return divide(*read_labelled(data, seed), data.max_length)
    if data.train or data.data or data.dev:
        raise DataError("--texts stands alone", remedy="leave out --train, --dev and --data, or --texts")
    task = task_of(data, data=goals.texts)
    text, pair = (task.columns.get(role, (None,))[0] for role in ("text", "text_pair"))
    return parts_of_texts(model, goals.texts, text or "text", pair, data.max_length)


def outcome(figures: dict[str, Any]) -> list[Table | str]:
    """Before and after, what each encoder retains, and the verdict, for a person."""
    table = plain_table(figures["goal"]["text"], [""], [figures["verdict"]["metric"], "word-vectors", "ms a text"])
    for name in ("original", "accelerated"):
        row = figures[name]
        table.add_row(name, f"{100 * row['value']:.1f}", f"{100 * row['work']:.0f} %", f"{row['ms']:.2f}")
    retention = RetentionConfiguration.from_json(figures["accelerated"]["retention"])
    return [table, retention_table(retention), figures["verdict"]["text"]]
