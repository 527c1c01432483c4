"""`powerbert predict`: answers for unlabelled data, and GLUE's submission files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
from datasets import Dataset
from numpy.typing import NDArray

from powerbert.cli.evaluate import opened
from powerbert.cli.groups import Columns, PredictFlags
from powerbert.cli.output import note, progress, write_text
from powerbert.errors import DataError, PowerBertError
from powerbert.modeling.limits import trained_length
from powerbert.tasks.provenance import notes_of
from powerbert.tasks.submission import submission
from powerbert.tasks.task import Task
from powerbert.training.data import Data, encode
from powerbert.training.evaluation import answers, logits_of


def predict(asked: PredictFlags, columns: Columns) -> None:
    """Answer every row of a file."""
    _check(asked)
    model, tokenizer, task, split = opened(asked, columns, labelled=False, split="test")
    if asked.glue is not None:
        _check_submission(task, split)
    length = columns.max_length or trained_length(Path(asked.model))
    encoded = encode(Data.of(task, {"test": split}), model, tokenizer, length)
    note(encoded.why)
    logits = logits_of(
        model, encoded.splits["test"], tokenizer, batch_size=asked.batch_size, progress=progress
    )
    if asked.output is not None:
        write_text(asked.output, "".join(_lines(split, logits, task)), "--output")
    if asked.glue is not None:
        name, content = submission(task, answers(logits, task).tolist())
        target = Path(asked.glue) / name
        write_text(str(target), content, "--glue")
        note(f"wrote {target}")


def _check(asked: PredictFlags) -> None:
    if asked.glue is not None:
        if not Path(asked.glue).is_dir():
            raise PowerBertError("--glue is not a folder", got=asked.glue, remedy="create it first")
        if asked.rows is not None:
            raise PowerBertError(
                "a submission has all rows", got=f"--rows {asked.rows}", remedy="leave it out"
            )


def _check_submission(task: Task, split: Dataset) -> None:
    """Refuse before the work what GLUE would not take."""
    submission(task, [0])  # a task that GLUE does not know
    skipped = [line for line in notes_of(split) if "skipped" in line]
    if skipped:
        raise DataError("a submission has one answer per row of the test file", got=skipped[0])


def _lines(split: Dataset, logits: NDArray[Any], task: Task) -> Iterator[str]:
    """One JSON object per row: its line in the source, the label, and how sure the model is."""
    for row, scores in zip(split["row"][:], logits, strict=True):
        answer: dict[str, Any] = {"row": row}
        if task.kind == "regression":
            answer["value"] = round(float(scores[0]), 4)
        else:
            shares = numpy.exp(scores - scores.max())
            best = int(scores.argmax())
            labels = task.labels or ()
            answer |= {"label": labels[best], "score": round(float(shares[best] / shares.sum()), 4)}
        yield json.dumps(answer, ensure_ascii=False) + "\n"
