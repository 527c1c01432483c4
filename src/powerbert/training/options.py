"""What a user can set of a training step: each field is a flag of the same name on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from powerbert.errors import PowerBertError
from powerbert.tasks.task import Task

TRAVEL = 3.0
"""How far r moves in a search if every step pushes it one way at full strength. Adam's normalised step
has size one, so this, not the number of steps, decides how far lambda * j can press r down."""
PRECISIONS = ("fp32", "bf16")
ROOM = 16
"""Inputs that are trained on at once unless the user says so; more are accumulated, to save memory."""

AnyOptions = TypeVar("AnyOptions", bound="Options")


@dataclass(frozen=True)
class Options:
    """Options common to all steps; the text beside a type is its help."""

    epochs: Annotated[float, "Passes over the training data."] = 3.0
    learning_rate: Annotated[float, "Peak learning rate; by default the authors' for the task."] = 3e-5
    batch_size: Annotated[int, "Inputs at once and process; by default at most 16."] = 16
    accumulation: Annotated[
        int, "Batches per step; by default the task's published batch over --batch-size."
    ] = 1
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
            if not getattr(self, name) > 0:
                raise PowerBertError(f"--{name.replace('_', '-')} is not positive", got=getattr(self, name))
        if not 0 <= self.warmup < 1:
            raise PowerBertError(
                "--warmup is a share of the steps", got=self.warmup, rule="from 0 to below 1"
            )
        if self.precision not in PRECISIONS:
            raise PowerBertError("unknown --precision", got=self.precision, rule=" or ".join(PRECISIONS))


@dataclass(frozen=True)
class SearchOptions(Options):
    """Options of the configuration search."""

    epochs: Annotated[float, "Passes over the training data."] = 2.0
    regulariser: Annotated[
        float, "lambda: how hard mass is pressed down, times j at encoder j; by default 0.03."
    ] = 0.03
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
        if self.regulariser < 0 or rate <= 0 or self.bins < 1:
            raise PowerBertError(
                "lambda, the learning rate of r and the bins are positive",
                got=(self.regulariser, rate, self.bins),
            )

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


def options_for(kind: type[AnyOptions], task: Task, given: dict[str, Any]) -> AnyOptions:
    """Options of a step: what the user gave, then the task's published hyper-parameters, then defaults."""
    published = task.hyper_parameters
    batch = given.get("batch_size") or min(published.batch_size, ROOM)
    found: dict[str, Any] = {"learning_rate": published.lr, "batch_size": batch}
    if "batch_size" not in given:
        found["accumulation"] = max(1, published.batch_size // batch)
    if given.get("optimiser") == "release":
        found |= {"regulariser": published.lambda_, "retention_learning_rate": published.lr_soft_extract}
    return kind(**(found | given))
