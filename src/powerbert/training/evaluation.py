"""Metric, word-vectors and predictions of a model on a split.

Paper: Hyper-parameters and Evaluation
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
from datasets import Dataset
from numpy.typing import NDArray

from powerbert.engines.answers import answer_rows
from powerbert.engines.engine import Engine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.tasks.metrics import Interval, bootstrap_interval, metric
from powerbert.tasks.task import Task
from powerbert.text.batches import flattened


@dataclass(frozen=True)
class Evaluation:
    """What a model does on a split."""

    metric: str
    value: float
    interval: Interval
    rows: int
    word_vectors: int
    """Real word-vectors processed over all encoders; PAD never counts."""
    word_vectors_full: int
    """The same for the full model without padding."""

    @property
    def work(self) -> float:
        """Share of the full, unpadded model's word-vectors that is still processed."""
        return self.word_vectors / self.word_vectors_full

    def to_json(self) -> dict[str, Any]:
        """Plain figures for JSON."""
        return {
            "metric": self.metric,
            "value": self.value,
            "interval": [self.interval.low, self.interval.high],
            "rows": self.rows,
            "word_vectors": self.word_vectors,
            "word_vectors_full": self.word_vectors_full,
            "work": self.work,
        }

    @classmethod
    def from_json(cls, figures: dict[str, Any]) -> Evaluation:
        """Read what `to_json` wrote."""
        return cls(
            figures["metric"],
            figures["value"],
            Interval(*figures["interval"]),
            figures["rows"],
            figures["word_vectors"],
            figures["word_vectors_full" if "word_vectors_full" in figures else "word_vectors_untouched"],
        )


def evaluate(model: Any, encoded: Dataset, task: Task, tokenizer: Any, **options: Any) -> Evaluation:
    """Evaluate a model in torch and give it back as it was; options are those of `evaluate_with`."""
    with TorchEngine(model, tokenizer) as engine:
        return evaluate_with(engine, encoded, task, **options)


def evaluate_with(
    engine: Engine,
    encoded: Dataset,
    task: Task,
    *,
    seed: int = 0,
    batch_size: int = 32,
    done: Callable[[int], object] = lambda rows: None,
) -> Evaluation:
    """Score a tokenised split with the task's own metric and a bootstrap interval.

    batch_size: inputs that are answered at once; done: is called with their number after each batch.
    """
    rows = inputs_of(encoded)
    logits = numpy.stack(answer_rows(engine, rows, most=batch_size, done=done))
    found = answers(logits.reshape(len(encoded), -1), task)  # the choices of a question side by side
    labels = numpy.asarray(encoded["labels"][:])
    value = metric(task.metric)(found, labels)
    interval = bootstrap_interval(task.metric, found, labels, seed)
    lengths = [len(row["input_ids"]) for row in rows]
    full = engine.encoders * sum(lengths)
    return Evaluation(task.metric, value, interval, len(encoded), engine.word_vectors(lengths), full)


def inputs_of(encoded: Dataset) -> list[Any]:
    """The rows of a tokenised split; every choice of a question is a row."""
    return list(flattened(list(encoded)))


def answers(logits: NDArray[numpy.float32], task: Task) -> NDArray[Any]:
    """Class indices, or the value of a regression, of logits (rows, labels)."""
    return logits[:, 0] if task.kind == "regression" else logits.argmax(axis=1)
