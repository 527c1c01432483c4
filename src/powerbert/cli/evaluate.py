"""`powerbert evaluate`: metric and real word-vectors of a model on labelled data."""

from __future__ import annotations

from powerbert.cli.data import open_model, read_rows
from powerbert.cli.groups import Columns, EvaluateFlags
from powerbert.cli.output import bar, note, show, write_json
from powerbert.report.tables import evaluation_table
from powerbert.tasks.encoding import encode_split
from powerbert.tasks.task import CHOICES
from powerbert.training.data import evaluate_with


def evaluate(asked: EvaluateFlags, columns: Columns) -> None:
    """Score a model with the task's own metric."""
    engine, task = open_model(asked, columns)
    split = read_rows(asked, columns, task, "dev", labelled=True)
    note(f"{engine.name} in {engine.precision}, N={engine.limits.longest}")
    encoded = encode_split(split, task, engine.tokenizer, engine.limits.longest)
    choices = CHOICES if task.kind == "multiple-choice" else 1
    with bar(choices * len(encoded), "inputs") as shown:
        result = evaluate_with(engine, encoded, task, batch_size=asked.batch_size, done=shown.update)
    if asked.shows:
        show(evaluation_table({asked.model: result.to_json()}))
    if asked.json is not None:
        retention = None if engine.retention is None else str(engine.retention)
        about = {"engine": engine.name, "precision": engine.precision, "max_length": engine.limits.longest}
        write_json(asked.json, result.to_json() | {"retention": retention} | about)
