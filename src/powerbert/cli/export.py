"""`powerbert export`: a classifier as a graph that another engine runs."""

from __future__ import annotations

from typing import Any

import numpy
from datasets import Dataset
from rich.table import Table

from powerbert.cli.data import existing_folder
from powerbert.cli.evaluate import opened
from powerbert.cli.groups import CALIBRATION, Columns, ExportFlags, asked_retention
from powerbert.cli.output import note, show, working, write_json
from powerbert.engines.open import open_engine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import PowerBertError
from powerbert.export.compare import Comparison, compare
from powerbert.export.exported import check_exportable
from powerbert.export.write import check_target as check_engine
from powerbert.export.write import export as write
from powerbert.export.write import needs_scales
from powerbert.modeling.apply import apply
from powerbert.modeling.packing import unpack
from powerbert.modeling.storage import load
from powerbert.tasks.metrics import metric
from powerbert.tasks.readers import read_split
from powerbert.tasks.sampling import subset
from powerbert.tasks.task import Task
from powerbert.text.tokenise import Text
from powerbert.training.evaluation import answers

AGREEMENT = 0.99
"""Share of the texts that should keep their label; fewer are told."""


def export(asked: ExportFlags, columns: Columns) -> None:
    """Write a classifier for another engine, and compare its answers."""
    check_engine(asked.to, asked.precision)
    check_exportable(asked.output)
    scales = needs_scales(asked.to, asked.precision)
    if asked.calibration is not None and not (scales and asked.data):
        raise PowerBertError(
            "--calibration is for int8 in OpenVINO, beside --data",
            got=f"{asked.to} {asked.precision}",
            remedy="leave it out, or give --data too",
        )
    model, tokenizer, task, rows = _source(asked, columns)
    texts = [] if rows is None or task is None else _texts(rows, task)
    used = CALIBRATION if scales and asked.calibration is None else 0
    known, unseen = texts[:used], texts[used:]
    if asked.calibration is not None and task is not None:
        known = _calibration(asked.calibration, task)
    with working(f"exporting to {asked.to}, {asked.precision}"):
        write(model, tokenizer, asked.output, asked.to, asked.precision, calibration=known)
    note(f"wrote {asked.output}")
    figures: dict[str, Any] = {"folder": asked.output, "engine": asked.to, "precision": asked.precision}
    if unseen and rows is not None and task is not None:
        found = _compare(asked, model, tokenizer, unseen)
        metrics = _metrics(found, rows, task, used)
        figures |= found.to_json() | {"metric": metrics}
        if asked.shows:
            show(_table(asked, found, metrics, task))
        if found.agreement is not None and found.agreement < AGREEMENT:
            changed = f"{asked.precision} changes {100 * (1 - found.agreement):.1f} % of the labels"
            note(f"{changed}, more than {100 * (1 - AGREEMENT):.0f} %: look at the metric, or export fp32")
    elif known:
        note(f"nothing is compared: all {len(known)} rows gave scales; give more than {CALIBRATION}")
    if asked.json is not None:
        write_json(asked.json, figures)


def _source(asked: ExportFlags, columns: Columns) -> tuple[Any, Any, Task | None, Dataset | None]:
    """The model and, where data was named, its task and rows; labelled ones if a label was named."""
    if asked.data is None:
        retention = asked_retention(asked.retention, columns.max_length) if asked.retention else None
        with working("loading the model"):
            model, tokenizer = load(existing_folder(asked.model))
        if retention is not None:
            apply(model, retention)
        return model, tokenizer, None, None
    labelled = columns.task is not None or columns.label is not None
    model, tokenizer, task, rows = opened(asked, columns, labelled=labelled, split="dev")
    return unpack(model), tokenizer, task, rows


def _texts(rows: Dataset, task: Task) -> list[Text]:
    if task.kind == "multiple-choice":
        raise PowerBertError("an engine runs sequence classifiers", got=task.name)
    if task.is_pair:
        return list(zip(rows["text"][:], rows["text_pair"][:], strict=True))
    return list(rows["text"][:])


def _calibration(file: str, task: Task) -> list[Text]:
    return _texts(subset(read_split(file, task, labelled=False), CALIBRATION, 0), task)


def _compare(asked: ExportFlags, model: Any, tokenizer: Any, texts: list[Text]) -> Comparison:
    """Torch in fp32 against the folder that was just written."""
    with working(f"comparing the answers to {len(texts):,} texts"):
        return compare(TorchEngine(model, tokenizer), open_engine(asked.output), texts)


def _metrics(found: Comparison, rows: Dataset, task: Task, used: int) -> dict[str, float] | None:
    """The task's metric of both on the rows that gave no scales, where there are labels."""
    if "label" not in rows.column_names:
        return None
    labels = numpy.asarray(rows["label"][used:])
    measure = metric(task.metric)
    arms = {"torch fp32": found.first, "exported": found.second}
    return {name: measure(answers(logits, task), labels) for name, logits in arms.items()}


def _table(asked: ExportFlags, found: Comparison, metrics: dict[str, float] | None, task: Task) -> Table:
    table = Table(title=f"{len(found.first):,} texts that were not used for the scales")
    table.add_column("")
    table.add_column(f"{asked.to} {asked.precision} against torch fp32", justify="right")
    if found.agreement is not None:
        table.add_row("same label", f"{100 * found.agreement:.2f} %")
    table.add_row("largest difference of a logit", f"{found.difference:.4f}")
    if metrics is not None:
        before, after = (100 * value for value in metrics.values())
        table.add_row(task.metric, f"{before:.2f} -> {after:.2f}")
    return table
