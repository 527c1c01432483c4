"""Re-training as every baseline has it: labels and the fine-tuned model's answers, as in step 3 of our own.

Paper: Baseline methods
"""

from typing import Any

from datasets import Dataset

from powerbert.modeling.apply import remove, unpad
from powerbert.text.batches import TEACHER
from powerbert.training.options import RetrainOptions
from powerbert.training.runner import StepRun
from powerbert.training.teacher import Distillation, with_answers


def taught(
    run: StepRun[RetrainOptions], teacher: Any, tokenizer: Any, rows: Dataset, asked: Dataset | None = None
) -> Dataset:
    """The rows with the teacher's answers, if the options want any.

    asked: what the teacher reads, row by row, if not the same.
    """
    options, asked = run.options, rows if asked is None else asked
    if not options.needs_teacher:
        return rows
    half, vectors = options.precision == "bf16", options.hidden_weight > 0
    answered = with_answers(asked, teacher, tokenizer, vectors=vectors, half=half)
    return rows.add_column(TEACHER, answered[TEACHER][:])


def train_taught(run: StepRun[RetrainOptions], rows: Dataset) -> None:
    """Train the model of a run on such rows; in the loop of this project, whose last encoder asks with CLS alone."""
    options, network = run.options, run.model
    unpad(network)
    run.train(rows, objective=Distillation(network, run.data.task, options) if options.needs_teacher else None)
    remove(network)
