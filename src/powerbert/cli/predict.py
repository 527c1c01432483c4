"""`powerbert predict`: answers for unlabelled data, and GLUE's submission files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from powerbert.cli.data import Columns
from powerbert.cli.evaluate import opened
from powerbert.cli.flags import command
from powerbert.cli.output import check_target, note, progress, write_text
from powerbert.cli.training import Given
from powerbert.errors import DataError, PowerBertError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from powerbert.tasks.task import Split, Task


@dataclass(frozen=True)
class Asked:
    """Which model answers what, and where the answers go."""

    model: Annotated[str, "Model folder.", "FOLDER"]
    data: Annotated[str, "The data file, or with --task the folder that holds the task.", "FILE"]
    output: Annotated[
        str | None,
        'JSON lines: row, label and score, in the order of the data; "-" is standard output.',
        "FILE",
    ] = None
    glue: Annotated[
        str | None, "Write GLUE's official submission file, such as MNLI-m.tsv, into this folder.", "FOLDER"
    ] = None
    split: Annotated[str | None, "Split of --task, where --data is a folder; by default test.", "NAME"] = None
    retention: Annotated[
        str | None, 'Fractions ("0.9,0.8,...") or counts of N, instead of what the folder carries.', "LIST"
    ] = None
    rows: Annotated[int | None, "A part of this many rows, drawn with seed 0.", "ROWS"] = None
    batch_size: Annotated[int, "Inputs of like length that are answered at once."] = 32


def _predict(flags: Given, columns: Given) -> None:
    """Answer every row of a file; labels in it are not looked at.

    Example:

        powerbert predict --model three --data new.csv --text review --output answers.jsonl
    """
    asked = Asked(**flags)
    _check(asked)
    model, tokenizer, task, split = opened(asked, Columns(**columns), labelled=False, split="test")
    from powerbert.tasks.submission import submission
    from powerbert.training.data import Data, encode
    from powerbert.training.evaluation import answers, logits_of
    from powerbert.training.record import trained_length

    if asked.glue is not None:
        _check_submission(task, split)
    length = columns.get("max_length") or trained_length(Path(asked.model))
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


def _check(asked: Asked) -> None:
    if asked.output is None and asked.glue is None:
        raise PowerBertError("where do the answers go?", remedy="give --output FILE, or --glue FOLDER")
    if asked.output is not None:
        check_target(asked.output, "--output")
    if asked.glue is not None:
        if not Path(asked.glue).is_dir():
            raise PowerBertError("--glue is not a folder", got=asked.glue, remedy="create it first")
        if asked.rows is not None:
            raise PowerBertError(
                "a submission has all rows", got=f"--rows {asked.rows}", remedy="leave it out"
            )


def _check_submission(task: Task, split: Split) -> None:
    """Refuse before the work what GLUE would not take."""
    from powerbert.tasks.submission import submission

    submission(task, [0])  # a task that GLUE does not know
    if split.skipped:
        raise DataError("a submission has one answer per row of the test file", got=split.notes[0])


def _lines(split: Split, logits: NDArray[Any], task: Task) -> Iterator[str]:
    """One JSON object per row: its line in the source, the label, and how sure the model is."""
    import numpy

    for row, scores in zip(split.dataset["row"][:], logits, strict=True):
        answer: dict[str, Any] = {"row": row}
        if task.kind == "regression":
            answer["value"] = round(float(scores[0]), 4)
        else:
            shares = numpy.exp(scores - scores.max())
            best = int(scores.argmax())
            labels = task.labels or ()
            answer |= {"label": labels[best], "score": round(float(shares[best] / shares.sum()), 4)}
        yield json.dumps(answer, ensure_ascii=False) + "\n"


predict = command(_predict, Asked, Columns)
