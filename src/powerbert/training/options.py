"""What a user can set of a training step."""

from __future__ import annotations

from dataclasses import dataclass

from powerbert.errors import PowerBertError

TRAVEL = 3.0
"""How far r moves in a search if every step pushes it one way at full strength. Adam's normalised step
has size one, so this, not the number of steps, decides how far lambda * j can press r down."""


@dataclass(frozen=True)
class Options:
    """Options common to all steps; each field is a flag of the same name on the command line."""

    epochs: float = 3.0
    learning_rate: float = 3e-5
    batch_size: int = 16
    """Inputs per step and process."""
    accumulation: int = 1
    """Steps whose gradients are added up before the weights move."""
    warmup: float = 0.1
    """Share of the steps over which the learning rate rises; then it falls linearly to 0."""
    weight_decay: float = 0.01
    seed: int = 0
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""
    evaluations: int = 1
    """Evaluations and checkpoints per epoch; the best by the task's own metric is kept."""
    report_to: str = "none"
    """Where transformers' Trainer reports: none, tensorboard, wandb."""

    def __post_init__(self) -> None:
        for name in ("epochs", "learning_rate", "batch_size", "accumulation", "evaluations"):
            if not getattr(self, name) > 0:
                raise PowerBertError(f"--{name.replace('_', '-')} is not positive", got=getattr(self, name))
        if not 0 <= self.warmup < 1:
            raise PowerBertError(
                "--warmup is a share of the steps", got=self.warmup, rule="from 0 to below 1"
            )


@dataclass(frozen=True)
class SearchOptions(Options):
    """Options of the configuration search."""

    epochs: float = 2.0
    regulariser: float = 0.03
    """lambda: how hard mass is pressed down, times j at encoder j."""
    retention_learning_rate: float | None = None
    """The learning rate of r. None: 2 * TRAVEL / steps, so that lambda means the same for any data size."""
    relative: bool = True
    """Learn a share of each input's own length over relative ranks; off: the paper's counts for N."""
    bins: int = 32
    """Bins of relative rank per encoder."""
    optimiser: str = "decoupled"
    """decoupled: lambda and j act outside Adam's normalisation; release: the authors' Adam with clipping."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimiser not in ("decoupled", "release"):
            raise PowerBertError("unknown optimiser of r", got=self.optimiser, rule="decoupled or release")
        rate = 1.0 if self.retention_learning_rate is None else self.retention_learning_rate
        if self.regulariser < 0 or rate <= 0 or self.bins < 1:
            raise PowerBertError(
                "lambda, the learning rate of r and the bins are positive",
                got=(self.regulariser, rate, self.bins),
            )

    def retention_rate(self, rows: int) -> float:
        """The peak learning rate of r for so many rows of training data."""
        if self.retention_learning_rate is not None:
            return self.retention_learning_rate
        steps = self.epochs * rows / (self.batch_size * self.accumulation)
        return 2 * TRAVEL / max(steps, 1.0)  # it falls linearly, so its mean is half of the peak


@dataclass(frozen=True)
class AnytimeOptions(Options):
    """Options of the anytime recipe."""

    smallest: float = 0.35
    """Share of the work that the smallest configuration of the training retains, in a linear fall."""
    temperature: float = 1.0


@dataclass(frozen=True)
class RetrainOptions(Options):
    """Options of re-training."""

    distillation: float = 0.5
    """Weight of the step-1 model's answers against the labels; 0 trains on the labels alone."""
    temperature: float = 2.0
    hidden_weight: float = 0.0
    """Weight of the distance to the step-1 model's final CLS vector."""
