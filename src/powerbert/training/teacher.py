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

from powerbert.modeling.packing import pack
from powerbert.text.batches import TEACHER
from powerbert.training.evaluation import run_over


class CLSVectors:
    """The final CLS vectors of a model's last forward pass."""

    def __init__(self, model: Any) -> None:
        self.last: Tensor
        model.base_model.register_forward_hook(self._remember)

    def of(self, rows: int) -> Tensor:
        """(rows, hidden); for multiple choice (rows, choices * hidden)."""
        return self.last.reshape(rows, -1)

    def _remember(self, module: Any, arguments: Any, output: Any) -> None:
        self.last = output[0][:, 0]


def with_answers(
    encoded: Dataset, teacher: Any, tokenizer: Any, *, vectors: bool, half: bool = False
) -> Dataset:
    """Add the teacher's answers as a column: its logits and then, if asked for, its final CLS vectors.

    half: run its matrix products in bf16, as those of the training are.
    """
    remembered = CLSVectors(teacher)
    ready = teacher if half else pack(teacher)

    def take(outputs: Any) -> Tensor:
        logits: Tensor = outputs.logits
        return torch.cat([logits, remembered.of(len(logits))], dim=1) if vectors else logits

    with torch.autocast(teacher.device.type, torch.bfloat16, enabled=half):
        answers = numpy.stack(run_over(ready, encoded, tokenizer, take))
    added: Dataset = encoded.add_column(TEACHER, list(answers))
    return added
