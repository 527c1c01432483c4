"""What an engine is: a saved folder that answers padded batches."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from powerbert.folders.manifest import Manifest
from powerbert.modeling.dial import Dial, at_budget
from powerbert.modeling.limits import Batch, Limits, check_batch
from powerbert.modeling.trace import Retained
from powerbert.retention import RetentionConfiguration
from powerbert.text.answers import function_of
from powerbert.text.batches import Integers


class Answer(NamedTuple):
    """What an engine says to a batch."""

    logits: NDArray[np.float32]  # (batch, labels)
    retained: Retained | None  # if asked for


class Engine(ABC):
    """A loaded model that answers batches, of any number of threads at once."""

    name: ClassVar[str]
    precisions: ClassVar[tuple[str, ...]]
    precision: str
    tokenizer: PreTrainedTokenizerBase
    labels: dict[int, str]
    limits: Limits
    problem_type: str | None
    """Of the model's configuration; with the number of labels it says what becomes of the logits."""
    activation: str | None = None
    """Of a CrossEncoder: what becomes of the logits, whatever else its configuration says."""
    retention: RetentionConfiguration | None
    encoders: int
    dial: Dial
    """Other configurations that the same weights serve, by budget; empty if there are none."""

    def at(self, budget: str | None) -> Self:
        """The engine at a budget of its dial, on the same weights; this one, without a budget."""
        return self if budget is None else self.retaining(at_budget(self.dial, budget))

    @abstractmethod
    def retaining(self, retention: RetentionConfiguration) -> Self:
        """The engine with a configuration of its dial, beside this one."""

    def function(self, asked: str | None = None) -> str:
        """What becomes of the logits; what a caller asks for comes first."""
        return function_of(self.problem_type, len(self.labels), self.activation, asked=asked)

    def word_vectors(self, lengths: Sequence[int]) -> int:
        """Word-vectors that all encoders together process for inputs of these lengths; PAD never counts."""
        if self.retention is None:
            return self.encoders * sum(lengths)
        return sum(inputs * self.retention.total(length) for length, inputs in Counter(lengths).items())

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, precision: str | None, threads: int | None, manifest: Manifest | None = None) -> Self:
        """Load a folder; without a precision the folder's own, without threads the engine's default.

        manifest: what `read_manifest` gave for this folder, where the caller has read it: every file is hashed for it.
        """

    @abstractmethod
    def answer(self, inputs: dict[str, Integers], retained: bool) -> Answer:
        """Answer a checked batch that holds every one of `limits.inputs`."""

    def run(self, batch: Batch, *, retained: bool = False) -> Answer:
        """Answer a padded batch, on whichever side it is padded.

        retained: tell also which words each encoder retained. The last encoder computes CLS alone
            when the head reads nothing else; a model that eliminates nothing has no entries.
        """
        return self.answer(check_batch(batch, self.limits), retained)
