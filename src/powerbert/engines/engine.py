"""What an engine is: a saved folder that answers padded batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from powerbert.errors import MissingExtraError, PowerBertError
from powerbert.modeling.limits import Limits
from powerbert.retention import RetentionConfiguration
from powerbert.text.batches import Integers

Batch = Mapping[str, Any]
"""`input_ids`, `attention_mask` and perhaps `token_type_ids`: (batch, length), arrays or CPU tensors."""
Retained = list[tuple[tuple[int, ...], ...]]
"""For each input and each encoder, ascending positions in the caller's layout."""


class Answer(NamedTuple):
    """What an engine says to a batch."""

    logits: NDArray[np.float32]  # (batch, labels)
    retained: Retained | None  # if asked for


class Engine(ABC):
    """A loaded model that answers batches; one call at a time."""

    name: ClassVar[str]
    precisions: ClassVar[tuple[str, ...]]
    precision: str
    tokenizer: PreTrainedTokenizerBase
    labels: dict[int, str]
    limits: Limits
    problem_type: str | None
    """Of the model's configuration; with the number of labels it says what becomes of the logits."""
    retention: RetentionConfiguration | None
    encoders: int

    def word_vectors(self, lengths: Sequence[int]) -> int:
        """Word-vectors that all encoders together process for inputs of these lengths; PAD never counts."""
        if self.retention is None:
            return self.encoders * sum(lengths)
        totals = {length: self.retention.total(length) for length in set(lengths)}
        return sum(totals[length] for length in lengths)

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, precision: str | None, threads: int | None) -> Self:
        """Load a folder; without a precision the folder's own, without threads the engine's default."""

    @abstractmethod
    def answer(self, inputs: dict[str, Integers], retained: bool) -> Answer:
        """Answer a checked batch that holds every one of `limits.inputs`."""

    def run(self, batch: Batch, *, retained: bool = False) -> Answer:
        """Answer a padded batch, on whichever side it is padded.

        retained: tell also which words each encoder retained. The last encoder computes CLS alone
            when the head reads nothing else; a model that eliminates nothing has no entries.
        """
        return self.answer(check(batch, self.limits), retained)


def check(batch: Batch, limits: Limits) -> dict[str, Integers]:
    """Bring a batch to the inputs of a model; a graph would read out of bounds where this refuses."""
    inputs = {name: _integers(name, batch[name]) for name in limits.inputs if name in batch}
    words = inputs.get("input_ids")
    if words is None or "attention_mask" not in inputs:
        raise PowerBertError(
            "a batch has input_ids and attention_mask", got=sorted(batch), remedy="use the tokenizer's output"
        )
    if len({rows.shape for rows in inputs.values()}) > 1 or words.ndim != 2 or words.size == 0:
        shapes = {name: rows.shape for name, rows in inputs.items()}
        raise PowerBertError("a batch is not rectangular", got=shapes, rule="each is (batch, length)")
    if "token_type_ids" in limits.inputs:
        inputs.setdefault("token_type_ids", np.zeros_like(words))
    inputs = _cut(inputs)
    if inputs["input_ids"].shape[1] > limits.longest:
        raise PowerBertError(
            "an input is longer than the model reads",
            got=inputs["input_ids"].shape[1],
            rule=f"at most {limits.longest} words",
            remedy="truncate it when tokenising",
        )
    for name, most in (("input_ids", limits.vocabulary), ("token_type_ids", limits.types)):
        if name in inputs and not 0 <= inputs[name].min() <= inputs[name].max() < most:
            raise PowerBertError(f"{name} are out of range", rule=f"from 0 to {most - 1}")
    return inputs


def retained_of(outputs: Mapping[str, Integers], inputs: int) -> Retained:
    """Read the outputs of a graph, one per encoder in their order, -1 behind the positions of an input."""
    return [tuple(tuple(rows[i][rows[i] >= 0].tolist()) for rows in outputs.values()) for i in range(inputs)]


def require(module: str, extra: str) -> Any:
    """Import a package of an optional extra, or tell how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"this needs {module.split('.')[0]}",
            got=str(error),
            remedy=f"pip install 'powerbert[{extra}]'",
        ) from error


def _integers(name: str, rows: Any) -> Integers:
    found = np.asarray(rows)
    if found.dtype.kind not in "biu":
        raise PowerBertError(f"{name} are not whole numbers", got=str(found.dtype))
    return found.astype(np.int64, copy=False)


def _cut(inputs: dict[str, Integers]) -> dict[str, Integers]:
    """Cut columns at the right end that are PAD in every input: nobody reads them."""
    real = np.flatnonzero(inputs["attention_mask"].any(axis=0))
    width = int(real[-1]) + 1 if real.size else 1
    return {name: np.ascontiguousarray(rows[:, :width]) for name, rows in inputs.items()}
