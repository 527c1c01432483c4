"""`powerbert anytime`: one training for all configurations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from powerbert.cli.data import TrainingData, existing_folder
from powerbert.cli.flags import command
from powerbert.cli.output import STANDARD_OUTPUT, note, show, write_json
from powerbert.cli.training import Folders, Given, evaluation_table, start, uninterrupted
from powerbert.errors import PowerBertError
from powerbert.training.options import AnytimeOptions


@dataclass(frozen=True)
class Table:
    """Which configurations are reported."""

    learned: Annotated[
        list[str] | None,
        "Folder of a search, whose configuration joins the table; may be repeated.",
        "FOLDER",
    ] = None
    budgets: Annotated[str, "Shares of the work at which every shape is reported.", "LIST"] = "0.7,0.5,0.35"


def _anytime(folders: Given, data: Given, options: Given, table: Given) -> None:
    """Train once so that any configuration can be applied to the same weights.

    Each step trains the full model on the labels, and the smallest and a random configuration on the full
    model's answers. Ends with the metric for a set of shapes and budgets.

    Example:

        powerbert anytime --model one --train a.csv --dev b.csv --text review --label stars --output any
    """
    asked = Table(**table)
    budgets = _budgets(asked.budgets)
    learned: list[Path] = [existing_folder(folder) for folder in asked.learned or ()]
    run = start("anytime", AnytimeOptions, folders, data, options)
    from powerbert.training.anytime import anytime as recipe
    from powerbert.training.evaluation import Evaluation

    result, rows = uninterrupted(lambda: recipe(run, learned, budgets))
    if folders.get("json") != STANDARD_OUTPUT:
        show(evaluation_table({row["name"]: Evaluation.from_json(row) for row in rows}))
    note(f"wrote {result.folder}; apply a configuration of the table with evaluate --retention or apply()")
    if folders.get("json") is not None:
        write_json(folders["json"], rows)


def _budgets(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise PowerBertError(
            "--budgets is a list of shares", got=text, remedy="write for instance 0.7,0.5"
        ) from None


anytime = command(_anytime, Folders, TrainingData, AnytimeOptions, Table)
