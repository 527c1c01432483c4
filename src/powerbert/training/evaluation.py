"""Metric, word-vectors and predictions of a model on a split."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor

from powerbert.modeling.apply import word_vectors
from powerbert.tasks.metrics import Interval, bootstrap_interval, metric
from powerbert.tasks.task import Task
from powerbert.text.batches import Collator, length_order

Progress = Callable[[Iterable[list[int]]], Iterable[list[int]]]


@dataclass(frozen=True)
class Evaluation:
    """What a model does on a split."""

    metric: str
    value: float
    interval: Interval
    rows: int
    word_vectors: int
    """Real word-vectors processed over all encoders; PAD never counts."""
    word_vectors_untouched: int
    """The same for the untouched model without padding."""

    @property
    def work(self) -> float:
        """Share of the untouched, unpadded model's word-vectors that is still processed."""
        return self.word_vectors / self.word_vectors_untouched

    def to_json(self) -> dict[str, Any]:
        """Plain figures for JSON."""
        return {
            "metric": self.metric,
            "value": self.value,
            "interval": [self.interval.low, self.interval.high],
            "rows": self.rows,
            "word_vectors": self.word_vectors,
            "word_vectors_untouched": self.word_vectors_untouched,
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
            figures["word_vectors_untouched"],
        )


def evaluate(
    model: Any, encoded: Dataset, task: Task, tokenizer: Any, *, seed: int = 0, **options: Any
) -> Evaluation:
    """Score a tokenised split with the task's own metric and a bootstrap interval."""
    predictions = answers(logits_of(model, encoded, tokenizer, **options), task)
    labels = numpy.asarray(encoded["labels"][:])
    value = metric(task.metric)(predictions, labels)
    interval = bootstrap_interval(task.metric, predictions, labels, seed)
    lengths = [length for row in encoded["input_ids"][:] for length in _lengths(row)]
    whole = model.config.num_hidden_layers * sum(lengths)
    return Evaluation(task.metric, value, interval, len(encoded), word_vectors(model, lengths), whole)


def logits_of(model: Any, encoded: Dataset, tokenizer: Any, **options: Any) -> NDArray[numpy.float32]:
    """Logits (rows, labels) in the order of the split; options are those of `run_over`."""
    return numpy.stack(run_over(model, encoded, tokenizer, lambda outputs: outputs.logits, **options))


@torch.inference_mode()
def run_over(
    model: Any,
    encoded: Dataset,
    tokenizer: Any,
    take: Callable[[Any], Tensor],
    *,
    batch_size: int = 32,
    progress: Progress = iter,
) -> list[NDArray[numpy.float32]]:
    """Run a split through the model in batches of like length; `take` picks one tensor per row of a batch.

    Returns one array per row, in the order of the split.
    """
    collate, order = Collator(tokenizer), length_order(encoded["length"][:])
    chunks = [order[at : at + batch_size] for at in range(0, len(order), batch_size)]
    training = model.training
    model.eval()
    results: dict[int, NDArray[numpy.float32]] = {}
    for chunk in progress(chunks):
        batch = collate([encoded[row] for row in chunk])
        batch.pop("labels", None)
        outputs = model(**{name: rows.to(model.device) for name, rows in batch.items()})
        results |= zip(chunk, take(outputs).float().numpy(force=True), strict=True)
    model.train(training)
    return [results[row] for row in range(len(encoded))]


def answers(logits: NDArray[numpy.float32], task: Task) -> NDArray[Any]:
    """Class indices, or the value of a regression."""
    return logits[:, 0] if task.kind == "regression" else logits.argmax(axis=1)


def _lengths(row: list[Any]) -> list[int]:
    """One length, or one per choice of a multiple-choice row."""
    return [len(choice) for choice in row] if isinstance(row[0], list) else [len(row)]
