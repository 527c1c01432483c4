"""`powerbert evaluate`: a model's answers to labelled data, scored."""

from powerbert.cli.answering import EvaluateFlags
from powerbert.cli.data import open_model, read_rows
from powerbert.cli.flags import Columns
from powerbert.cli.opening import say_engine
from powerbert.cli.output import bar, show, write_json
from powerbert.report.tables import evaluation_table
from powerbert.tasks.encoding import encode_split
from powerbert.tasks.task import CHOICES
from powerbert.training.data import evaluate_with


def evaluate(asked: EvaluateFlags, columns: Columns) -> None:
    """Score a model with the task's own metric."""
    engine, task = open_model(asked, columns, asked.data)
    split = read_rows(asked, columns, task, "dev", labelled=True)
    say_engine(engine)
    encoded = encode_split(split, task, engine.tokenizer, engine.limits.longest)
    choices = CHOICES if task.kind == "multiple-choice" else 1
    with bar(choices * len(encoded), "inputs") as shown:
        result = evaluate_with(engine, encoded, task, batch_size=asked.batch_size, done=shown.update)
    figures = result.to_json()
    if asked.shows:
        show(evaluation_table({asked.model: figures}))
    figures["retention"] = None if engine.retention is None else str(engine.retention)
    about = {"engine": engine.name, "precision": engine.precision, "max_length": engine.limits.longest}
    write_json(asked.json, figures | about)
