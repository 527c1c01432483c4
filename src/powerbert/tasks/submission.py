"""Answers to a GLUE test set as the file that gluebenchmark.com accepts.

The format is that of the benchmark's own baselines (nyu-mll/GLUE-baselines, `src/main.py`): a TSV file with
the columns `index` and `prediction`, the names of classes for the NLI tasks, 0 or 1 for the others, three
decimals for STS-B.
"""

from __future__ import annotations

import math
import operator

from powerbert.errors import DataError
from powerbert.tasks.metrics import Values
from powerbert.tasks.registry import TASKS
from powerbert.tasks.task import Task

HEADER = "index\tprediction"
ANSWERED_BY_NAME = ("MNLI-m", "MNLI-mm", "QNLI", "RTE")
"""The tasks whose answers are the names of classes; the others want the index."""


def submission(task: Task, answers: Values) -> tuple[str, str]:
    """Return the file's name and content for answers in the order of the official test file.

    Answers are class indices, or values for STS-B, which are clipped to its range.
    """
    if not _is_glue(task):
        raise DataError(
            f"there is no GLUE submission for task {task.name}",
            rule=f"GLUE's tasks are {', '.join(task.name for task in TASKS if _is_glue(task))}",
            remedy="write plain predictions instead",
        )
    if len(answers) == 0:
        raise DataError("a submission needs answers", remedy=f"predict the official test file of {task.name}")
    write = _value if task.kind == "regression" else _class
    lines = (f"{index}\t{write(task, index, answer)}" for index, answer in enumerate(answers))
    return f"{task.name}.tsv", "\n".join([HEADER, *lines, ""])


def _is_glue(task: Task) -> bool:
    return task.hub.startswith("nyu-mll/glue:")


def _value(task: Task, index: int, answer: object) -> str:
    """Write a regression's answer, clipped to the range of labels; never -0.000."""
    least, greatest = task.label_range or (-math.inf, math.inf)
    try:
        number = float(answer)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(
            f"the answer of index {index} is not a finite number",
            got=answer,
            remedy="check the model's outputs for NaN",
        )
    return f"{min(max(least, number), greatest):.3f}"


def _class(task: Task, index: int, answer: object) -> str:
    """Write a class by name where GLUE wants names, else by index."""
    labels = task.labels or ()
    try:
        chosen = operator.index(answer)  # type: ignore[arg-type]
    except TypeError:
        chosen = -1
    if not 0 <= chosen < len(labels):
        raise DataError(
            f"the answer of index {index} is not a class of {task.name}",
            got=answer,
            rule=f"an answer is a class index, 0 to {len(labels) - 1} ({', '.join(labels)})",
        )
    return labels[chosen] if task.name in ANSWERED_BY_NAME else str(chosen)
