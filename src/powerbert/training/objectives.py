"""What a training step minimises beside the labels.

Paper: Loss Function
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import kl_div, mse_loss

from powerbert.tasks.task import Task
from powerbert.text.batches import TEACHER
from powerbert.training.options import RetrainOptions
from powerbert.training.retention_parameters import RetentionParameters
from powerbert.training.teacher import CLSVectors


class ReleaseRegulariser:
    """L + lambda * sum_j j * mass(j; r), through the gradient, as the authors' release does."""

    def __init__(self, r: RetentionParameters, weight: float) -> None:
        self.r, self.weight = r, weight

    def __call__(self, model: Any, inputs: dict[str, Tensor], outputs: Any, step: int) -> Tensor:
        """Add the regulariser to the task's loss."""
        loss: Tensor = outputs["loss"] + self.weight * self.r.regulariser()
        return loss


class Distillation:
    """Re-training on the step-1 model's answers beside the labels; the batch brings them (`teacher`)."""

    def __init__(self, student: Any, task: Task, options: RetrainOptions) -> None:
        self.task, self.options = task, options
        self.vectors = CLSVectors(student) if options.hidden_weight > 0 else None

    def __call__(self, model: Any, inputs: dict[str, Tensor], outputs: Any, step: int) -> Tensor:
        """Weigh labels, the teacher's logits and, if asked for, its final CLS vector."""
        weight, logits = self.options.distillation, outputs["logits"]
        labels = logits.shape[1]
        answers, vectors = inputs[TEACHER][:, :labels], inputs[TEACHER][:, labels:]
        soft = answer_distance(logits, answers, self.task, self.options.temperature)
        loss: Tensor = (1 - weight) * outputs["loss"] + weight * soft
        if self.vectors is not None:
            own = self.vectors.of(len(logits))
            loss = loss + self.options.hidden_weight * mse_loss(own, vectors)
        return loss


def without_labels(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inputs of a model that is only asked for its answers."""
    return {name: rows for name, rows in inputs.items() if name not in ("labels", TEACHER)}


def answer_distance(logits: Tensor, answers: Tensor, task: Task, temperature: float) -> Tensor:
    """How far logits (batch, labels) are from the teacher's: KL at a temperature, or squared error.

    The task decides, not the model's `problem_type`: that of most one-label heads is null until they
    are trained, and a softmax over one logit is 1 whatever the logit.
    """
    if task.kind == "regression":
        return mse_loss(logits, answers)
    soft = kl_div(
        (logits / temperature).log_softmax(dim=-1),
        (answers / temperature).log_softmax(dim=-1),
        reduction="batchmean",
        log_target=True,
    )
    return soft * temperature**2
