"""`powerbert export`: a classifier as a graph that another engine runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy

from powerbert.cli.data import existing_folder, read_rows, task_of
from powerbert.cli.groups import CALIBRATION, Columns, ExportFlags, asked_retention
from powerbert.cli.output import note, show, working, write_json
from powerbert.engines.answers import answer
from powerbert.engines.auto import AGREEMENT, AutoEngine, choose_target
from powerbert.engines.engine import Engine
from powerbert.engines.open import open_engine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import PowerBertError
from powerbert.export.write import check_engine, check_exportable, needs_scales
from powerbert.export.write import export as write
from powerbert.modeling.apply import apply
from powerbert.modeling.storage import load
from powerbert.report.tables import comparison_table
from powerbert.tasks.encoding import texts_of
from powerbert.tasks.metrics import metric
from powerbert.tasks.readers import read_split
from powerbert.tasks.task import Split, Task
from powerbert.text.tokenise import Text
from powerbert.training.data import answers


def export(asked: ExportFlags, columns: Columns) -> None:
    """Write a classifier for another engine, and compare its answers."""
    check_exportable(asked.output)
    to, precision, auto = asked.to, asked.precision or "fp32", asked.to == AutoEngine.name
    if not auto:
        check_engine(to, precision)
    scales = asked.precision in (None, "int8") if auto else needs_scales(to, precision)
    if asked.calibration is not None and not (scales and asked.data):
        raise PowerBertError(
            "--calibration is for int8 in OpenVINO, beside --data",
            got=f"{asked.to} {asked.precision}",
            remedy="leave it out, or give --data too",
        )
    retention = asked_retention(asked.retention, columns.max_length) if asked.retention else None
    with working("loading the model"):
        model, tokenizer = load(existing_folder(asked.model))
    if retention is not None:
        apply(model, retention)
    with TorchEngine(model, tokenizer) as engine:
        task = None if asked.data is None else task_of(columns, engine, asked.data)
    rows = None if task is None else _rows(asked, columns, task)
    texts = [] if rows is None else texts_of(rows.dataset[:])
    used = CALIBRATION if scales and asked.calibration is None else 0
    known, unseen = texts[:used], texts[used:]
    if asked.calibration is not None and task is not None:
        known = _calibration(asked.calibration, task)
    if auto:
        with working("trying every engine that is installed"):
            to, precision, why = choose_target(model, tokenizer, asked.precision, known, unseen)
        note(why)
    with working(f"exporting to {to}, {precision}"):
        write(model, tokenizer, asked.output, to, precision, calibration=known)
    asked = replace(asked, to=to, precision=precision)
    note(f"wrote {asked.output}")
    figures: dict[str, Any] = {"folder": asked.output, "engine": asked.to, "precision": asked.precision}
    if unseen and rows is not None and task is not None:
        figures |= _compare(asked, TorchEngine(model, tokenizer), unseen, rows, task)
    elif known:
        note(f"nothing is compared: all {len(known)} rows gave scales; give more than {CALIBRATION}")
    if asked.json is not None:
        write_json(asked.json, figures)


def _rows(asked: ExportFlags, columns: Columns, task: Task) -> Split:
    """The texts to compare; labelled ones if a label was named."""
    if task.kind == "multiple-choice":
        raise PowerBertError("an engine runs sequence classifiers", got=task.name)
    labelled = columns.task is not None or columns.label is not None
    return read_rows(asked, columns, task, "dev", labelled=labelled)


def _calibration(file: str, task: Task) -> list[Text]:
    return texts_of(read_split(file, task, labelled=False).part(CALIBRATION, 0).dataset[:])


def _compare(asked: ExportFlags, torch: Engine, texts: list[Text], rows: Split, task: Task) -> dict[str, Any]:
    """Torch in fp32 against the folder that was just written, on the last rows, which gave no scales."""
    with working(f"comparing the answers to {len(texts):,} texts"):
        first, second = compare(torch, open_engine(asked.output), texts)
    figures, metrics = _agreement(first, second), None
    if "label" in rows.dataset.column_names:
        labels = numpy.asarray(rows.dataset["label"][-len(texts) :])
        arms = {"torch fp32": first, "exported": second}
        metrics = {name: metric(task.metric)(answers(logits, task), labels) for name, logits in arms.items()}
    if asked.shows:
        show(comparison_table(figures, f"{asked.to} {asked.precision}", metrics, task.metric))
    if (same := figures["agreement"]) is not None and same < AGREEMENT:
        changed = f"{asked.precision} changes {100 * (1 - same):.1f} % of the labels"
        note(f"{changed}, more than {100 * (1 - AGREEMENT):.0f} %: look at the metric, or export fp32")
    return figures | {"metric": metrics}


def compare(first: Engine, second: Engine, texts: list[Text]) -> tuple[Any, ...]:
    """Let both engines answer, each in batches of like length: logits (texts, labels) each."""
    return tuple(numpy.stack(list(answer(engine, texts))) for engine in (first, second))


def _agreement(first: Any, second: Any) -> dict[str, Any]:
    """Share of texts with the same label, None if the model predicts one number; the largest difference of a logit."""
    same = None if first.shape[1] == 1 else float((first.argmax(axis=1) == second.argmax(axis=1)).mean())
    return {"texts": len(first), "agreement": same, "difference": float(numpy.abs(first - second).max())}
