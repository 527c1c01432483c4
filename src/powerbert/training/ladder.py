"""One re-training for many configurations: every batch is answered with another rung of a ladder.

The full model is not trained beside it, as the sandwich rule would: its answers are asked for once and never
change, so an epoch costs what the rungs cost on the average, less than half of an epoch of fine-tuning.
"""

from collections.abc import Sequence
from typing import Any

import numpy
from torch import Tensor

from powerbert.modeling.apply import with_retention
from powerbert.retention import RetentionConfiguration
from powerbert.training.shapes import work


class Ladder:
    """Configurations of one model, the mildest first; each batch of a training draws one."""

    def __init__(self, rungs: Sequence[RetentionConfiguration], seed: int) -> None:
        self.rungs, self.seed = list(rungs), seed

    def draw(self, model: Any, inputs: dict[str, Tensor], step: int) -> None:
        """Give the model the rung of this batch, or, while it is evaluated, the middle one.

        Seed, step and the words of the batch alone decide, so that a run can resume.
        """
        number = len(self.rungs) // 2
        if model.training:
            words = int(inputs["input_ids"].sum())
            number = int(numpy.random.default_rng([self.seed, step, words]).integers(len(self.rungs)))
        with_retention(model, self.rungs[number])


def dial_of(rungs: Sequence[RetentionConfiguration]) -> dict[str, RetentionConfiguration]:
    """The rungs by how many times less work they are: "2x" processes half of the word-vectors."""
    return {f"{1 / work(rung.fractions):.3g}x": rung for rung in rungs if rung.is_relative}
