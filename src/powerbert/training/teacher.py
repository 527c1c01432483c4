"""The teacher: the fine-tuned model's answers to the training data, and how a model learns from them.

It does not learn and has no dropout, so its answers never change. Asked in every step it would cost a
third of a full training; asked once, before re-training, step 3 costs what the retained work costs.
"""

from __future__ import annotations

from typing import Any

import numpy
import torch
from datasets import Dataset
from torch import Tensor
from torch.nn.functional import kl_div, mse_loss
from typing_extensions import override

from powerbert.engines.answers import answer_rows
from powerbert.engines.engine import Answer
from powerbert.engines.torch_engine import TorchEngine
from powerbert.tasks.task import Task
from powerbert.text.batches import TEACHER, Integers
from powerbert.training.evaluation import inputs_of
from powerbert.training.options import RetrainOptions


class CLSVectors:
    """The final CLS vectors of a model's last forward pass."""

    def __init__(self, model: Any) -> None:
        self.last: Tensor
        self.hook = model.base_model.register_forward_hook(self._remember)

    def of(self, rows: int) -> Tensor:
        """(rows, hidden); for multiple choice (rows, choices * hidden)."""
        return self.last.reshape(rows, -1)

    def _remember(self, module: Any, arguments: Any, output: Any) -> None:
        self.last = output[0][:, 0]


class _Teacher(TorchEngine):
    """A model whose answer to an input is its logits and then its final CLS vector."""

    def __init__(self, model: Any, tokenizer: Any, *, packed: bool) -> None:
        super().__init__(model, tokenizer, packed=packed)
        self.vectors = CLSVectors(model)

    @override
    def answer(self, inputs: dict[str, Integers], retained: bool) -> Answer:
        logits = super().answer(inputs, retained).logits
        vectors = self.vectors.of(len(logits)).float().numpy(force=True)
        return Answer(numpy.concatenate([logits, vectors], axis=1), None)

    @override
    def __exit__(self, *error: object) -> None:
        self.vectors.hook.remove()
        super().__exit__(*error)


def with_answers(encoded: Dataset, teacher: Any, tokenizer: Any, *, vectors: bool, half: bool = False) -> Dataset:
    """Add the teacher's answers as a column: its logits and then, if asked for, its final CLS vectors.

    half: run its matrix products in bf16, as those of the training are; packed weights would be fp32.
    """
    with (
        _Teacher(teacher, tokenizer, packed=not half) as engine,
        torch.autocast(teacher.device.type, torch.bfloat16, enabled=half),
    ):
        answers = numpy.stack(answer_rows(engine, inputs_of(encoded), most=32))
    labels = teacher.config.num_labels if len(answers) == len(encoded) else 1  # a choice has one
    logits, hidden = (part.reshape(len(encoded), -1) for part in numpy.split(answers, [labels], axis=1))
    column = numpy.concatenate([logits, hidden], axis=1) if vectors else logits
    added: Dataset = encoded.add_column(TEACHER, list(column))
    return added


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
