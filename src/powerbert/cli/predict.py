"""`powerbert evaluate` and `predict`: a model's answers to labelled data, to a file of any size, and for GLUE."""

import csv
import io
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

import numpy
from numpy.typing import NDArray

from powerbert.cli.data import is_task_folder, open_model, read_rows
from powerbert.cli.flags import Columns, EvaluateFlags, PredictFlags
from powerbert.cli.output import bar, note, show, write_json, write_output, writing
from powerbert.engines.answers import ahead, answer_rows, windows
from powerbert.engines.engine import Engine
from powerbert.errors import DataError, PowerBertError
from powerbert.report.tables import evaluation_table
from powerbert.tasks.encoding import encode_rows, encode_split
from powerbert.tasks.readers import stream_rows
from powerbert.tasks.registry import submission
from powerbert.tasks.task import CHOICES, Task
from powerbert.text.answers import ranked, scores
from powerbert.text.tokenise import Row
from powerbert.training.data import answers, evaluate_with

HELD, HEAVIEST = 65_536, 4_000_000
"""Rows, and characters, that are sorted by length at a time; the next ones are tokenised meanwhile.

The more, the more batches of one shape follow each other: OpenVINO makes new kernels for every other shape.
"""
Texts = tuple[int, dict[str, Any]]  # the line or row of the source, and its texts by the task's names


def evaluate(asked: EvaluateFlags, columns: Columns) -> None:
    """Score a model with the task's own metric."""
    engine, task = open_model(asked, columns)
    split = read_rows(asked, columns, task, "dev", labelled=True)
    _say(engine)
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


def predict(asked: PredictFlags, columns: Columns) -> None:
    """Answer every row of a file."""
    if asked.glue is not None and not Path(asked.glue).is_dir():
        raise PowerBertError("--glue is not a folder", got=asked.glue, remedy="create it first")
    engine, task = open_model(asked, columns)
    rows, total = _rows(asked, columns, task)
    _say(engine)
    own = {"text": columns.text, "text_pair": columns.text_pair}
    names = {role: own.get(role) or role for role in task.columns} if asked.with_texts else {}
    kept: list[Any] = []
    count, start = 0, time.perf_counter()
    target = nullcontext(io.StringIO()) if asked.output is None else writing(asked.output, "--output")
    with target as file, bar(total, "rows") as shown:
        write = _writer(asked, file)
        for held, logits in _answered(engine, task, rows, asked.batch_size, shown.update):
            count += len(held)
            for record, (_, texts) in zip(_records(held, logits, engine, task), held, strict=True):
                write(record | {names[role]: text for role, text in texts.items()} if names else record)
            if asked.glue is not None:
                kept += answers(logits, task).tolist()
    seconds = time.perf_counter() - start
    note(f"answered {count:,} rows in {seconds:,.1f} s, {count / seconds:,.0f} rows/s")
    if asked.glue is not None:
        name, content = submission(task, kept)
        write_output(str(Path(asked.glue) / name), content, "--glue")
        note(f"wrote {Path(asked.glue) / name}")


def _say(engine: Engine) -> None:
    note(f"{engine.name} in {engine.precision}, N={engine.limits.longest}")


def _rows(asked: PredictFlags, columns: Columns, task: Task) -> tuple[Iterable[Texts], int | None]:
    """The rows to answer and, where it is known, their number; a file is read while it is answered."""
    whole = (asked.rows, asked.glue, asked.split) == (None, None, None)
    if whole and not is_task_folder(asked.data, columns):
        rows = stream_rows(asked.data, task)
        return ((row.number, row.texts) for row in rows), _lines(Path(asked.data))
    split = read_rows(asked, columns, task, "test", labelled=False)
    if asked.glue is not None:  # refuse before the work what GLUE would not take
        submission(task, [0])  # a task that GLUE does not know
        if split.skipped:
            raise DataError("a submission has one answer per row of the test file", got=split.notes[0])
    return ((row["row"], {name: row[name] for name in task.columns}) for row in split.dataset), len(split)


def _lines(path: Path) -> int | None:
    """About how many rows a file has, for the time left: its lines, where counting them is quick."""
    if not path.is_file() or path.suffix.lower() in (".gz", ".parquet"):
        return None
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def _answered(
    engine: Engine, task: Task, rows: Iterable[Texts], batch_size: int, done: Callable[[float], object]
) -> Iterator[tuple[list[Texts], NDArray[numpy.float32]]]:
    """Answer window by window, in the order of the rows; a text's answer depends on no other row."""

    def tokenised() -> Iterator[tuple[list[Texts], list[Row]]]:
        # A small first one: nobody waits for it.
        for held in windows(rows, HELD, max(1, HELD // 16), weight=_characters, heaviest=HEAVIEST):
            columns = {name: [texts[name] for _, texts in held] for name in task.columns}
            yield held, encode_rows(columns, task, engine.tokenizer, engine.limits.longest)

    choices = CHOICES if task.kind == "multiple-choice" else 1
    for held, inputs in ahead(tokenised()):
        logits = numpy.stack(answer_rows(engine, inputs, most=batch_size, done=lambda rows: done(rows / choices)))
        yield held, logits.reshape(len(held), -1)  # the choices of a question side by side


def _characters(row: Texts) -> int:
    return sum(map(len, row[1].values()))


def _records(held: list[Texts], logits: NDArray[numpy.float32], engine: Engine, task: Task) -> Iterator[dict[str, Any]]:
    """For each row its line in the source, the label and how sure the model is, as `pipeline` says it."""
    names, function = engine.labels, engine.function()
    if task.kind == "multiple-choice":
        names, function = dict(enumerate(task.labels or ())), "softmax"
    for (number, _), row in zip(held, logits.tolist(), strict=True):
        found = scores(row, function)
        if task.kind == "regression":
            yield {"row": number, "value": float(f"{found[0]:.6g}")}  # sigmoids near 1 differ far behind the point
        else:
            (best,) = ranked(found, names, 1)
            yield {"row": number, "label": best["label"], "score": round(best["score"], 4)}


def _writer(asked: PredictFlags, file: TextIO) -> Callable[[dict[str, Any]], object]:
    """A function that writes a record as a line of JSON or of CSV, there with a header."""
    by_name = "csv" if (asked.output or "").lower().endswith(".csv") else "jsonl"
    if (asked.format or by_name) == "jsonl":
        return lambda record: file.write(json.dumps(record, ensure_ascii=False) + "\n")
    sheet, header = csv.writer(file, lineterminator="\n"), iter([True])

    def write(record: dict[str, Any]) -> None:
        if next(header, False):
            sheet.writerow(record)
        sheet.writerow(record.values())

    return write
