"""`powerbert export`: a classifier as a graph that another engine runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from powerbert.cli.data import Columns, existing_folder
from powerbert.cli.evaluate import opened
from powerbert.cli.flags import command
from powerbert.cli.output import STANDARD_OUTPUT, check_target, note, show, working, write_json
from powerbert.cli.training import Given
from powerbert.errors import PowerBertError

if TYPE_CHECKING:
    from rich.table import Table

    from powerbert.export.compare import Comparison
    from powerbert.tasks.task import Split, Task
    from powerbert.text.batches import Text

CALIBRATION = 256
"""Rows from which int8 in OpenVINO takes its scales; what gives scales is not compared."""
AGREEMENT = 0.99
"""Share of the texts that should keep their label; fewer are told."""


@dataclass(frozen=True)
class Asked:
    """What is exported, and to what."""

    model: Annotated[str, "Model folder.", "FOLDER"]
    to: Annotated[str, "onnx or openvino.", "ENGINE"]
    output: Annotated[str, "Folder for the exported model.", "FOLDER"]
    precision: Annotated[str, "fp32, int8 or, with openvino, bf16.", "NAME"] = "fp32"
    data: Annotated[
        str | None,
        "Your own texts, to compare the answers with torch; without --calibration int8 in OpenVINO takes its "
        f"scales from the first {CALIBRATION} rows and is compared on the others.",
        "FILE",
    ] = None
    calibration: Annotated[
        str | None,
        f"Texts with the columns of --data, of which {CALIBRATION}, drawn with seed 0, give int8 in OpenVINO "
        "its scales; then all of --data is compared.",
        "FILE",
    ] = None
    split: Annotated[str | None, "Split of --task, where --data is a folder; by default dev.", "NAME"] = None
    rows: Annotated[int | None, "A part of this many rows, drawn with seed 0.", "ROWS"] = None
    retention: Annotated[
        str | None, 'Fractions ("0.9,0.8,...") or counts of N, instead of what the folder carries.', "LIST"
    ] = None
    json: Annotated[str | None, 'Write the figures to this file; "-" is standard output.', "FILE"] = None


def _export(flags: Given, columns: Given) -> None:
    """Write a classifier, its tokenizer and its retention configuration for ONNX Runtime or OpenVINO.

    Batch and length stay free, and each input retains word-vectors by its own length. With --data the
    answers of the exported model are compared with those of torch in fp32.

    Example:

        powerbert export --model three --to openvino --output fast --precision int8 --data a.csv --text review
    """
    from powerbert.export.write import check_target as check_engine
    from powerbert.export.write import needs_scales

    asked = Asked(**flags)
    check_engine(asked.to, asked.precision)
    if asked.json is not None:
        check_target(asked.json, "--json")
    scales = needs_scales(asked.to, asked.precision)
    if asked.calibration is not None and not (scales and asked.data):
        raise PowerBertError(
            "--calibration is for int8 in OpenVINO, beside --data",
            got=f"{asked.to} {asked.precision}",
            remedy="leave it out, or give --data too",
        )
    model, tokenizer, task, rows = _source(asked, Columns(**columns))
    texts = [] if rows is None or task is None else _texts(rows, task)
    used = CALIBRATION if scales and asked.calibration is None else 0
    known, unseen = texts[:used], texts[used:]
    if asked.calibration is not None and task is not None:
        known = _calibration(asked.calibration, task)
    from powerbert.export.write import export as write

    with working(f"exporting to {asked.to}, {asked.precision}"):
        write(model, tokenizer, asked.output, asked.to, asked.precision, calibration=known)
    note(f"wrote {asked.output}")
    figures: dict[str, Any] = {"folder": asked.output, "engine": asked.to, "precision": asked.precision}
    if unseen and rows is not None and task is not None:
        found = _compare(asked, model, tokenizer, unseen)
        metrics = _metrics(found, rows, task, used)
        figures |= found.to_json() | {"metric": metrics}
        if asked.json != STANDARD_OUTPUT:
            show(_table(asked, found, metrics, task))
        if found.agreement is not None and found.agreement < AGREEMENT:
            changed = f"{asked.precision} changes {100 * (1 - found.agreement):.1f} % of the labels"
            note(f"{changed}, more than {100 * (1 - AGREEMENT):.0f} %: look at the metric, or export fp32")
    elif known:
        note(f"nothing is compared: all {len(known)} rows gave scales; give more than {CALIBRATION}")
    if asked.json is not None:
        write_json(asked.json, figures)


def _source(asked: Asked, columns: Columns) -> tuple[Any, Any, Task | None, Split | None]:
    """The model and, where data was named, its task and rows; labelled ones if a label was named."""
    if asked.data is None:
        from powerbert.cli.retention import asked_retention
        from powerbert.modeling.apply import apply
        from powerbert.modeling.storage import load

        retention = asked_retention(asked.retention, columns.max_length) if asked.retention else None
        with working("loading the model"):
            model, tokenizer = load(existing_folder(asked.model))
        if retention is not None:
            apply(model, retention)
        return model, tokenizer, None, None
    labelled = columns.task is not None or columns.label is not None
    from powerbert.modeling.packing import unpack

    model, tokenizer, task, rows = opened(asked, columns, labelled=labelled, split="dev")
    return unpack(model), tokenizer, task, rows


def _texts(rows: Split, task: Task) -> list[Text]:
    if task.kind == "multiple-choice":
        raise PowerBertError("an engine runs sequence classifiers", got=task.name)
    if task.is_pair:
        return list(zip(rows.dataset["text"][:], rows.dataset["text_pair"][:], strict=True))
    return list(rows.dataset["text"][:])


def _calibration(file: str, task: Task) -> list[Text]:
    from powerbert.tasks.readers import read_split

    return _texts(read_split(file, task, labelled=False).part(CALIBRATION, 0), task)


def _compare(asked: Asked, model: Any, tokenizer: Any, texts: list[Text]) -> Comparison:
    """Torch in fp32 against the folder that was just written."""
    from powerbert.engines.open import open_engine
    from powerbert.engines.torch_engine import TorchEngine
    from powerbert.export.compare import compare

    with working(f"comparing the answers to {len(texts):,} texts"):
        return compare(TorchEngine(model, tokenizer), open_engine(asked.output), texts)


def _metrics(found: Comparison, rows: Split, task: Task, used: int) -> dict[str, float] | None:
    """The task's metric of both on the rows that gave no scales, where there are labels."""
    if "label" not in rows.dataset.column_names:
        return None
    import numpy

    from powerbert.tasks.metrics import metric
    from powerbert.training.evaluation import answers

    labels = numpy.asarray(rows.dataset["label"][used:])
    measure = metric(task.metric)
    arms = {"torch fp32": found.first, "exported": found.second}
    return {name: measure(answers(logits, task), labels) for name, logits in arms.items()}


def _table(asked: Asked, found: Comparison, metrics: dict[str, float] | None, task: Task) -> Table:
    from rich.table import Table

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


export = command(_export, Asked, Columns)
