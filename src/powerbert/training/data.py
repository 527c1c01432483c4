"""A task's checked data, tokenised for a model, and how well a model answers it.

Paper: Hyper-parameters and Evaluation
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy
from datasets import Dataset
from numpy.typing import NDArray

from powerbert.engines.answers import answer_rows
from powerbert.engines.engine import Engine
from powerbert.engines.torch_engine import TorchEngine
from powerbert.modeling.limits import longest_input
from powerbert.tasks.checks import Findings, check_splits
from powerbert.tasks.encoding import choose_max_length, covering_length, encode_split, measure_lengths
from powerbert.tasks.metrics import Interval, bootstrap_interval, metric
from powerbert.tasks.readers import read_splits
from powerbert.tasks.registry import own_task
from powerbert.tasks.sources import DataSource
from powerbert.tasks.task import Split, Task, check_max_length
from powerbert.text.batches import TEACHER, flattened

SAMPLED, CHARACTERS = 1_000, 4.5  # rows of which the length is estimated, and characters of a token


@dataclass(frozen=True)
class Data:
    """The splits of a task, before any model has seen them."""

    task: Task
    splits: Mapping[str, Split]
    findings: Findings
    max_length: int | None = None  # N as the user wants it, the longest input; None: the task's, else the paper's rule
    labelled: bool = True  # whether the labels are the user's own, not a model's answers

    @classmethod
    def of(
        cls, task: Task, splits: Mapping[str, Split], max_length: int | None = None, *, labelled: bool = True
    ) -> Data:
        """Check the splits; what cannot be trained on is refused here, before any work."""
        check_max_length(max_length)
        return cls(task, splits, check_splits(splits, task), max_length, labelled)

    @classmethod
    def read(cls, train: DataSource, dev: DataSource, *, text: str, text_pair: str | None = None, label: str) -> Data:
        """Read and check your own files; `text`, `text_pair` and `label` name their columns."""
        return cls.of(*read_splits({"train": train, "dev": dev}, own_task(text, text_pair, label)))

    @cached_property
    def digest(self) -> str:
        """Names the content of all splits: a run is not resumed on other data.

        A model's answers are no part of it: their last digits depend on the number of threads.
        """
        content, made = hashlib.sha256(), () if self.labelled else ("label", TEACHER)
        for name, split in self.splits.items():
            content.update(name.encode())
            for batch in split.dataset.iter(batch_size=10_000):
                given = {name: values for name, values in batch.items() if name not in made}
                content.update(json.dumps(given, sort_keys=True).encode())
        return content.hexdigest()[:16]

    @cached_property
    def length(self) -> float:
        """About how many tokens an input has, from its characters: known before any tokenizer is."""
        columns = self.splits["train"].dataset[:SAMPLED]
        texts = [columns[name] for name in self.task.columns if isinstance(columns[name][0], str)]
        return sum(len(text) for column in texts for text in column) / len(texts[0]) / CHARACTERS


class EncodedData(NamedTuple):
    """Tokenised splits."""

    task: Task
    splits: Mapping[str, Dataset]
    max_length: int  # N that they were cut to
    why: str  # where N comes from, for the user to read


def encode_data(data: Data, model: Any, tokenizer: Any) -> EncodedData:
    """Tokenise all splits to N: as given, else the task's, else by the paper's rule.

    The tokenizer is given N too: what is trained so is evaluated so. An earlier training's N is no limit.
    """
    limit, max_length = longest_input(model), data.max_length
    if max_length is not None:
        why = f"N={max_length} as given"
    elif data.task.max_length is not None:
        max_length, why = data.task.max_length, f"N={data.task.max_length} of the paper for {data.task.name}"
    else:
        lengths = measure_lengths(data.splits["train"], data.task, tokenizer)
        max_length = choose_max_length(lengths, limit)
        why = f"N={max_length} by the paper's rule: 99 % of the inputs have at most {covering_length(lengths)}"
    if max_length > limit:
        max_length, why = limit, f"N={limit}, the longest input of the model"
    tokenizer.model_max_length = max_length
    task = replace(data.task, max_length=max_length)
    splits = {name: encode_split(rows, task, tokenizer, max_length) for name, rows in data.splits.items()}
    return EncodedData(task, splits, max_length, why)


@dataclass(frozen=True)
class Evaluation:
    """What a model does on a split."""

    metric: str
    value: float
    interval: Interval
    rows: int
    word_vectors: int  # processed over all encoders; PAD never counts
    word_vectors_full: int  # the same for the full model

    @property
    def work(self) -> float:
        """Share of the full, unpadded model's word-vectors that is still processed."""
        return self.word_vectors / self.word_vectors_full

    def to_json(self) -> dict[str, Any]:
        """Plain figures for JSON."""
        return asdict(self) | {"interval": [*self.interval], "work": self.work}

    @classmethod
    def from_json(cls, figures: dict[str, Any]) -> Evaluation:
        """Read what `to_json` wrote, here or among other figures."""
        own = {name: figures[name] for name in cls.__dataclass_fields__}
        return cls(**own | {"interval": Interval(*figures["interval"])})


def evaluate(model: Any, encoded: Dataset, task: Task, tokenizer: Any) -> Evaluation:
    """Evaluate a model in torch and give it back as it was."""
    with TorchEngine(model, tokenizer) as engine:
        return evaluate_with(engine, encoded, task)


def evaluate_with(
    engine: Engine, encoded: Dataset, task: Task, batch_size: int = 32, done: Callable[[int], object] = lambda n: None
) -> Evaluation:
    """Score a tokenised split with the task's own metric and a bootstrap interval.

    batch_size: inputs that are answered at once; done: is called with their number after each batch.
    """
    found, labels = answers_with(engine, encoded, task, batch_size, done), numpy.asarray(encoded["labels"][:])
    value, interval = metric(task.metric)(found, labels), bootstrap_interval(task.metric, found, labels, seed=0)
    lengths = [len(row["input_ids"]) for row in flattened(list(encoded))]
    full = engine.encoders * sum(lengths)
    return Evaluation(task.metric, value, interval, len(encoded), engine.word_vectors(lengths), full)


def answers_with(
    engine: Engine, encoded: Dataset, task: Task, batch_size: int = 32, done: Callable[[int], object] = lambda n: None
) -> NDArray[Any]:
    """What an engine answers to a tokenised split, (rows,): class indices, or the values of a regression."""
    rows = list(flattened(list(encoded)))  # every choice of a question is a row
    logits = numpy.stack(answer_rows(engine, rows, most=batch_size, done=done))
    return answers(logits.reshape(len(encoded), -1), task)  # the choices of a question side by side


def answers(logits: NDArray[numpy.float32], task: Task) -> NDArray[Any]:
    """Class indices, or the value of a regression, of logits (rows, labels)."""
    return logits[:, 0] if task.kind == "regression" else logits.argmax(axis=1)
