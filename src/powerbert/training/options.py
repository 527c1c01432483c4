"""What a user can set of a training step: each field is a flag of the same name on the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from typing_extensions import override

from powerbert.errors import PowerBertError
from powerbert.tasks.task import Task

TRAVEL = 3.0
"""How far r moves in a search if every step pushes it one way at full strength. Adam's normalised step
has size one, so this, not the number of steps, decides how far lambda * j can press r down."""
LAMBDA = 0.03
"""The regulariser of a search."""
PRECISIONS = ("fp32", "bf16")
ROOM = 16
"""Inputs that are trained on at once unless the user says so; more are accumulated, to save memory."""

BY_TASK: Any = None
"""Default of what the task decides; `for_task` puts the task's own value in its place."""


@dataclass(frozen=True)
class Options:
    """Options common to all steps; the text beside a type is its help."""

    epochs: Annotated[float, "Passes over the training data."] = 3.0
    learning_rate: Annotated[float, "Peak learning rate; by default the authors' for the task."] = BY_TASK
    batch_size: Annotated[int, "Inputs at once and process; by default at most 16."] = BY_TASK
    accumulation: Annotated[
        int, "Batches per step; by default the task's published batch over --batch-size."
    ] = BY_TASK
    warmup: Annotated[float, "Share of the steps over which the learning rate rises."] = 0.1
    weight_decay: Annotated[float, "Decay of the weights, not of norms and biases."] = 0.01
    seed: Annotated[int, "Decides new weights, the order of batches and dropout."] = 0
    precision: Annotated[str, "fp32, or bf16 for the matrix products of training where that is fast."] = (
        "fp32"
    )
    gradient_checkpointing: Annotated[bool, "Less memory, more time: recompute in the backward pass."] = False
    evaluations: Annotated[int, "Evaluations and checkpoints per epoch."] = 1
    report_to: Annotated[str, "Where transformers' Trainer reports: none, tensorboard, wandb."] = "none"

    def __post_init__(self) -> None:
        for name in ("epochs", "learning_rate", "batch_size", "accumulation", "evaluations"):
            value = getattr(self, name)
            if value is not BY_TASK and not value > 0:
                raise PowerBertError(f"--{name.replace('_', '-')} is not positive", got=value)
        if not 0 <= self.warmup < 1:
            raise PowerBertError(
                "--warmup is a share of the steps", got=self.warmup, rule="from 0 to below 1"
            )
        if self.precision not in PRECISIONS:
            raise PowerBertError("unknown --precision", got=self.precision, rule=" or ".join(PRECISIONS))

    def for_task(self, task: Task) -> Self:
        """The same options with the task's published hyper-parameters where nothing was given."""
        published = task.hyper_parameters
        batch = self.batch_size or min(published.batch_size, ROOM)
        whole = published.batch_size if self.batch_size is None else batch
        return replace(
            self,
            learning_rate=self.learning_rate or published.lr,
            batch_size=batch,
            accumulation=self.accumulation or max(1, whole // batch),
        )


@dataclass(frozen=True)
class SearchOptions(Options):
    """Options of the configuration search."""

    epochs: Annotated[float, "Passes over the training data."] = 2.0
    regulariser: Annotated[
        float, "lambda: how hard mass is pressed down, times j at encoder j; by default 0.03."
    ] = BY_TASK
    retention_learning_rate: Annotated[
        float | None, "Learning rate of r; by default so that lambda means the same for any data size."
    ] = None
    relative: Annotated[
        bool, "Learn shares of each input's own length, or with --no-relative the paper's counts for N."
    ] = True
    bins: Annotated[int, "Bins of relative rank per encoder."] = 32
    lengths: Annotated[
        str,
        "half: an encoder retains the ranks with r of a half or more; mass: the paper's ceiling of the mass.",
    ] = "half"
    optimiser: Annotated[
        str, "decoupled: lambda and j act outside Adam's normalisation; release: the authors' clipped Adam."
    ] = "decoupled"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimiser not in ("decoupled", "release"):
            raise PowerBertError("unknown optimiser of r", got=self.optimiser, rule="decoupled or release")
        if self.lengths not in ("half", "mass"):
            raise PowerBertError("unknown --lengths", got=self.lengths, rule="half or mass")
        rate = 1.0 if self.retention_learning_rate is None else self.retention_learning_rate
        weight = LAMBDA if self.regulariser is None else self.regulariser
        if weight < 0 or rate <= 0 or self.bins < 1:
            raise PowerBertError(
                "lambda, the learning rate of r and the bins are positive", got=(weight, rate, self.bins)
            )

    @override
    def for_task(self, task: Task) -> Self:
        published, rate, weight = task.hyper_parameters, self.retention_learning_rate, self.regulariser
        if self.optimiser == "release":
            rate = published.lr_soft_extract if rate is None else rate
            weight = published.lambda_ if weight is None else weight
        weight = LAMBDA if weight is None else weight
        return replace(super().for_task(task), regulariser=weight, retention_learning_rate=rate)

    def retention_rate(self, steps: float) -> float:
        """The peak learning rate of r for so many steps of training."""
        if self.retention_learning_rate is not None:
            return self.retention_learning_rate
        return 2 * TRAVEL / max(steps, 1.0)  # it falls linearly, so its mean is half of the peak


@dataclass(frozen=True)
class RetrainOptions(Options):
    """Options of re-training."""

    distillation: Annotated[
        float, "Weight of the fine-tuned model's answers against the labels; 0: labels alone."
    ] = 0.5
    temperature: Annotated[float, "Softens the answers that are distilled."] = 2.0
    hidden_weight: Annotated[float, "Weight of the distance to the fine-tuned model's final CLS vector."] = (
        0.0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.distillation <= 1:
            raise PowerBertError("--distillation is a weight", got=self.distillation, rule="from 0 to 1")
        if self.temperature <= 0 or self.hidden_weight < 0:
            raise PowerBertError(
                "--temperature and --hidden-weight are positive", got=(self.temperature, self.hidden_weight)
            )


@dataclass(frozen=True)
class AnytimeOptions(Options):
    """Options of the anytime recipe."""

    smallest: Annotated[
        float, "Share of the work that the smallest configuration of the training retains, falling linearly."
    ] = 0.35
    temperature: Annotated[float, "Softens the answers that are distilled."] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.smallest < 1 or self.temperature <= 0:
            raise PowerBertError(
                "--smallest is a share and --temperature positive", got=(self.smallest, self.temperature)
            )
