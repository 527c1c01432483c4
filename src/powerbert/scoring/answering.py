"""Answers to windows of rows, in the order of the rows, and what is written of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from powerbert.engines.answers import answer_rows
from powerbert.engines.engine import Engine
from powerbert.errors import PowerBertError
from powerbert.scoring.rows import Window
from powerbert.tasks.encoding import encode_rows
from powerbert.tasks.task import CHOICES, Task
from powerbert.text.answers import ranked, scores
from powerbert.text.tokenise import Row

DIGITS = 4  # of a score: more would differ between machines
LABEL, SCORE, VALUE, ERROR = "label", "score", "value", "error"

WindowLogits = NDArray[numpy.float32]  # (rows, labels) of the rows of a window that have no fault
Answered = tuple[Window, WindowLogits]


@dataclass(frozen=True)
class Answerer:
    """A model that is asked about whole windows: its batches are those of the window, and so are its answers."""

    engine: Engine
    task: Task
    batch_size: int

    def tokenise(self, texts: Sequence[Mapping[str, Any]]) -> list[Row]:
        """The inputs of a window; four for each question of a multiple choice."""
        if not texts:
            return []
        columns = {name: [row[name] for row in texts] for name in self.task.columns}
        return encode_rows(columns, self.task, self.engine.tokenizer, self.engine.limits.longest)

    def answer(self, inputs: Sequence[Row], done: Callable[[float], object] = lambda rows: None) -> WindowLogits:
        """Logits (rows, labels); the choices of a question are its labels."""
        choices = CHOICES if self.task.kind == "multiple-choice" else 1
        if not inputs:
            return numpy.empty((0, 1), numpy.float32)
        logits = answer_rows(self.engine, inputs, most=self.batch_size, done=lambda rows: done(rows / choices))
        return numpy.stack(logits).reshape(len(inputs) // choices, -1)


def texts_to_answer(window: Window) -> list[dict[str, Any]]:
    """Those of the rows that have no fault."""
    return [row.texts for row in window if row.fault is None]


def answered_here(
    answerer: Answerer, windows: Iterable[Window], done: Callable[[float], object] = lambda rows: None
) -> Iterator[Answered]:
    """Answer in this process, one window after the other.

    Nothing is read ahead: the engine has all cores, and a thread beside it cost more than it gave
    (docs/results/everyday.md).
    """
    for window in windows:
        yield window, answerer.answer(answerer.tokenise(texts_to_answer(window)), done)


class Verdicts:
    """The columns that are added to a row: `label` and `score`, or the `value` of a model of one number."""

    def __init__(
        self, engine: Engine, task: Task, *, every: bool = False, prefix: str = "", errors: bool = False
    ) -> None:
        """Every: also the score of each label, as score_LABEL. errors: also what is wrong with a row."""
        self.names, self.function = dict(engine.labels), engine.function()
        if task.kind == "multiple-choice":
            self.names, self.function = dict(enumerate(task.labels or ())), "softmax"
        self.single, self.prefix, self.errors = task.kind == "regression", prefix, errors
        self.every = [f"{SCORE}_{name}" for _, name in sorted(self.names.items())] if every and not self.single else []
        own: list[tuple[str, type]] = [(VALUE, float)] if self.single else [(LABEL, str), (SCORE, float)]
        own += [(name, float) for name in self.every] + [(ERROR, str)] * errors
        self.columns: dict[str, type] = {prefix + name: kind for name, kind in own}
        if len(self.columns) < len(own):
            raise PowerBertError("two labels of the model have one name", got=self.every, remedy="leave out --all")

    def of(self, logits: list[float]) -> dict[str, Any]:
        """What is written of an answer, as `pipeline` says it."""
        found = scores(logits, self.function)
        if self.single:
            values: list[Any] = [float(f"{found[0]:.6g}")]  # sigmoids near 1 differ far behind the point
        else:
            (best,) = ranked(found, self.names, 1)
            values = [best["label"], round(best["score"], DIGITS)]
            values += [round(score, DIGITS) for score in found] if self.every else []
        return dict(zip(self.columns, [*values, None] if self.errors else values, strict=True))

    def of_fault(self, fault: object) -> dict[str, Any]:
        """What is written of a row that was not answered."""
        return dict.fromkeys(self.columns) | {self.prefix + ERROR: str(fault)}
