"""`powerbert export`: a classifier as a graph that another engine runs."""

from dataclasses import replace
from typing import Any

import numpy
from numpy.typing import NDArray

from powerbert.cli.data import read_rows, task_of
from powerbert.cli.flags import CALIBRATION, Columns, ExportFlags, asked_retention
from powerbert.cli.opening import existing_folder
from powerbert.cli.output import note, show, working, write_json
from powerbert.engines.answers import answer
from powerbert.engines.auto import AGREEMENT, AutoEngine, choose_target
from powerbert.engines.engine import Engine
from powerbert.engines.open import open_engine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.errors import PowerBertError
from powerbert.export import write
from powerbert.folders.manifest import glance
from powerbert.modeling.apply import apply, retention_of
from powerbert.modeling.dial import dial_in
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
    write.check_exportable(asked.output)
    to, precision, auto = asked.to, asked.precision or "fp32", asked.to == AutoEngine.name
    if not auto:
        write.check_engine(to, precision)
    quantised = write.file_precision(asked.precision or "int8") == "int8"
    scales = quantised if auto else write.needs_scales(to, precision)
    if asked.calibration is not None and not (scales and asked.data):
        what, got = "--calibration is for int8 in OpenVINO, beside --data", f"{asked.to} {asked.precision}"
        raise PowerBertError(what, got=got, remedy="leave it out, or give --data too")
    retention = asked_retention(asked.retention, columns.max_length)
    with working("loading the model"):
        folder = existing_folder(asked.model)
        model, tokenizer = load(folder)
    dial = {} if retention is not None else dial_in(folder, glance(folder), retention_of(model))
    if retention is not None:
        apply(model, retention)
    with TorchEngine(model, tokenizer) as engine:
        task = None if asked.data is None else task_of(columns, engine, asked.data)
    if task is not None and task.kind == "multiple-choice":
        raise PowerBertError("an engine runs sequence classifiers", got=task.name)
    labelled = columns.task is not None or columns.label is not None
    rows = None if task is None else read_rows(asked, columns, task, "dev", labelled=labelled)
    texts = [] if rows is None else texts_of(rows.dataset[:])
    used = CALIBRATION if scales and asked.calibration is None else 0
    known, unseen = texts[:used], texts[used:]
    if asked.calibration is not None and task is not None:
        known = texts_of(read_split(asked.calibration, task, labelled=False).part(CALIBRATION, 0).dataset[:])
    if auto:
        with working("trying every engine that is installed"):
            to, precision, why = choose_target(model, tokenizer, asked.precision, known, unseen)
        note(why)
    with working(f"exporting to {to}, {precision}"):
        write.export(model, tokenizer, asked.output, to, precision, calibration=known, dial=dial)
    asked = replace(asked, to=to, precision=precision)
    note(f"wrote {asked.output}")
    figures: dict[str, Any] = {"folder": asked.output, "engine": asked.to, "precision": asked.precision}
    if unseen and rows is not None and task is not None:
        figures |= _compare(asked, TorchEngine(model, tokenizer), unseen, rows, task)
    elif known:
        note(f"nothing is compared: all {len(known)} rows gave scales; give more than {CALIBRATION}")
    write_json(asked.json, figures)


def _compare(asked: ExportFlags, torch: Engine, texts: list[Text], rows: Split, task: Task) -> dict[str, Any]:
    """Torch in fp32 against the folder that was just written, on the last rows, which gave no scales."""
    with working(f"comparing the answers to {len(texts):,} texts"):
        before, after = logits_of(torch, texts), logits_of(open_engine(asked.output), texts)
    agreement = None  # for a model that predicts one number
    if before.shape[1] > 1:
        agreement = float((before.argmax(axis=1) == after.argmax(axis=1)).mean())
    difference = float(numpy.abs(before - after).max())
    figures: dict[str, Any] = {"texts": len(texts), "agreement": agreement, "difference": difference, "metric": None}
    if "label" in rows.dataset.column_names:
        labels = numpy.asarray(rows.dataset["label"][-len(texts) :])
        arms = {"torch fp32": before, "exported": after}
        figures["metric"] = {name: metric(task.metric)(answers(logits, task), labels) for name, logits in arms.items()}
    if asked.shows:
        show(comparison_table(figures, f"{asked.to} {asked.precision}", task.metric))
    if agreement is not None and agreement < AGREEMENT:
        changed = f"{asked.precision} changes {100 * (1 - agreement):.1f} % of the labels"
        note(f"{changed}, more than {100 * (1 - AGREEMENT):.0f} %: look at the metric, or export fp32")
    return figures


def logits_of(engine: Engine, texts: list[Text]) -> NDArray[numpy.float32]:
    """Logits (texts, labels), in batches of like length."""
    return numpy.stack(list(answer(engine, texts)))
