"""The fine-tuned model's answers to the training data, asked for once, before re-training.

The teacher does not learn and has no dropout, so its answers never change. Asked in every step it
would cost a third of a full training; asked once, step 3 costs what the retained work costs.
"""

from __future__ import annotations

from typing import Any

import numpy
import torch
from datasets import Dataset
from torch import Tensor
from typing_extensions import override

from powerbert.engines.answers import answer_rows
from powerbert.engines.engine import Answer
from powerbert.engines.torch_engine import TorchEngine
from powerbert.text.batches import TEACHER, Integers
from powerbert.training.evaluation import inputs_of


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


def with_answers(
    encoded: Dataset, teacher: Any, tokenizer: Any, *, vectors: bool, half: bool = False
) -> Dataset:
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
