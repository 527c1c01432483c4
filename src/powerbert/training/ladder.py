"""One re-training for many configurations: every batch is answered with another rung of a ladder.

The full model is not trained beside it (the sandwich rule did, and lost two points: docs/results/accelerate.md): its
answers are asked for once and never change, so an epoch costs what the rungs cost on the average, less than half of an
epoch of fine-tuning.
"""

from collections.abc import Sequence
from typing import Any

import numpy
from torch import Tensor

from powerbert.modeling.apply import with_retention
from powerbert.retention import RetentionConfiguration
from powerbert.training.shapes import late, least_of_late, work

RUNGS = (0.7, 0.6, 0.52, 0.45, 0.39, 0.34, 0.29, 0.25)  # shares of the work
LEAST_BUDGET = 0.15  # no smaller one is tried
SHALLOWEST = 4  # encoders of the first ladder, if the model has as many


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


def depth_of(encoders: int) -> int:
    """How many encoders the rungs run unless another depth is asked for: three of four."""
    return -(-3 * encoders // 4)


def depths_of(encoders: int) -> list[int]:
    """Depths of the ladders that a goal is tried with, the fastest first: half of the encoders, then three of four.

    Fewer encoders that read more words keep as much as more encoders that read fewer, where a task bears it; none bore
    fewer than four (docs/results/accelerate.md).
    """
    deep = depth_of(encoders)
    return sorted({min(deep, max(SHALLOWEST, encoders // 2)), deep})


def rung(encoders: int, budget: float, depth: int | None = None) -> RetentionConfiguration:
    """The configuration of a budget: a late fall through the first encoders, by default three of four, and no other.

    The last ones would read next to nothing, and a text that is answered alone waits for their weights all the same.
    All rungs of a ladder run equally many: the head learns to read one encoder that was never the last, not several
    (docs/results/accelerate.md). A budget above what they can spend is all word-vectors in all of them.
    """
    depth = depth or depth_of(encoders)
    falling = late(depth, min(1.0, budget * encoders / depth))
    return RetentionConfiguration.relative([*falling.fractions, *[0.0] * (encoders - depth)])


def least_budget(encoders: int, depth: int | None = None) -> float:
    """The smallest budget of a rung: the first encoders retain all of their words."""
    depth = depth or depth_of(encoders)
    return max(LEAST_BUDGET, least_of_late(depth) * depth / encoders + 1e-3)


def all_rungs(encoders: int, depth: int | None = None) -> list[RetentionConfiguration]:
    """Every rung that so many encoders can have at a depth, the mildest first."""
    depth = depth or depth_of(encoders)
    budgets = {min(budget, depth / encoders) for budget in RUNGS if budget > least_budget(encoders, depth)}
    return [rung(encoders, budget, depth) for budget in sorted(budgets, reverse=True)]


def dial_of(rungs: Sequence[RetentionConfiguration]) -> dict[str, RetentionConfiguration]:
    """The rungs by how many times less work they are: "2x" processes half of the word-vectors."""
    return {f"{1 / work(rung.fractions):.3g}x": rung for rung in rungs if rung.is_relative}
