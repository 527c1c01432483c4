"""What a training step minimises beside the labels."""

from __future__ import annotations

from typing import Any

import numpy
from torch import Tensor
from torch.nn.functional import kl_div, mse_loss

from powerbert.modeling.apply import apply
from powerbert.retention import RetentionConfiguration
from powerbert.text.batches import TEACHER
from powerbert.training.options import RetrainOptions
from powerbert.training.retention_parameters import NAME, regulariser
from powerbert.training.shapes import random_configuration
from powerbert.training.teacher import CLSVectors


class ReleaseRegulariser:
    """L + lambda * sum_j j * mass(j; r), through the gradient, as the authors' release does."""

    def __init__(self, weight: float, max_length: int | None) -> None:
        self.weight, self.max_length = weight, max_length

    def __call__(self, model: Any, inputs: dict[str, Tensor], outputs: Any, step: int) -> Tensor:
        """Add the regulariser to the task's loss."""
        loss: Tensor = outputs["loss"] + self.weight * regulariser(getattr(model, NAME), self.max_length)
        return loss


class Distillation:
    """Re-training on the step-1 model's answers beside the labels; the batch brings them (`teacher`)."""

    def __init__(self, student: Any, options: RetrainOptions) -> None:
        self.options = options
        self.regression = student.config.problem_type == "regression"
        self.vectors = CLSVectors(student) if options.hidden_weight > 0 else None

    def __call__(self, model: Any, inputs: dict[str, Tensor], outputs: Any, step: int) -> Tensor:
        """Weigh labels, the teacher's logits and, if asked for, its final CLS vector."""
        weight, logits = self.options.distillation, outputs["logits"]
        labels = logits.shape[1]
        answers, vectors = inputs[TEACHER][:, :labels], inputs[TEACHER][:, labels:]
        soft = answer_distance(logits, answers, self.options.temperature, self.regression)
        loss: Tensor = (1 - weight) * outputs["loss"] + weight * soft
        if self.vectors is not None:
            own = self.vectors.of(len(logits))
            loss = loss + self.options.hidden_weight * mse_loss(own, vectors)
        return loss


class Sandwich:
    """The full model on the labels; the smallest and a random configuration on the full model's answers."""

    def __init__(self, smallest: RetentionConfiguration, temperature: float, seed: int) -> None:
        self.smallest, self.temperature, self.seed = smallest, temperature, seed
        self.full = RetentionConfiguration.full(len(smallest))

    def __call__(self, model: Any, inputs: dict[str, Tensor], outputs: Any, step: int) -> Tensor:
        """Add up the three losses; the draw depends on seed and step alone, so that a run can resume."""
        generator = numpy.random.default_rng([self.seed, step])
        drawn = random_configuration(self.smallest, generator)
        loss: Tensor = outputs["loss"]
        regression = model.config.problem_type == "regression"
        for retention in (self.smallest, drawn):
            logits = apply(model, retention)(**without_labels(inputs)).logits
            loss = loss + answer_distance(logits, outputs["logits"].detach(), self.temperature, regression)
        apply(model, self.full)
        return loss


def without_labels(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inputs of a model that is only asked for its answers."""
    return {name: rows for name, rows in inputs.items() if name not in ("labels", TEACHER)}


def answer_distance(logits: Tensor, answers: Tensor, temperature: float, regression: bool) -> Tensor:
    """How far the logits (batch, labels) are from the teacher's: KL at a temperature, or squared error."""
    if regression:
        return mse_loss(logits, answers)
    soft = kl_div(
        (logits / temperature).log_softmax(dim=-1),
        (answers / temperature).log_softmax(dim=-1),
        reduction="batchmean",
        log_target=True,
    )
    return soft * temperature**2
