"""The teacher: which model it is, its answers to the training data, and how a model learns from them.

It does not learn and has no dropout, so its answers never change. Asked in every step it would cost a
third of a full training; asked once, before re-training, step 3 costs what the retained work costs.
"""

import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
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
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.folders.manifest import folder_digest
from powerbert.modeling.families import family_of
from powerbert.modeling.limits import RUN
from powerbert.modeling.storage import load
from powerbert.tasks.task import Task
from powerbert.text.batches import TEACHER, Integers, flattened
from powerbert.training.heads import check_head
from powerbert.training.options import RetrainOptions
from powerbert.training.runner import Folder, read_run
from powerbert.training.trainer import Pace

logger = logging.getLogger(__name__)


def teacher_of(model: Folder, *, eliminates: bool) -> Path:
    """The fine-tuned model that a folder came from, through any number of searches and re-trainings.

    A folder that no step wrote, or that fine-tuning wrote, is that model itself, unless it has elimination.
    """
    folder, seen, remedy = Path(model).resolve(), set(), "give --teacher FOLDER, or --distillation 0"
    while (settings := read_run(folder).get("settings") or {}).get("step") not in (None, "finetune"):
        before = Path(str(settings.get("model")))
        if before in seen or not before.is_dir():
            what = "the fine-tuned model that this one came from is not there"
            raise PowerBertError(what, got=str(before), rule=f"{folder / RUN} names it", remedy=remedy)
        if (recorded := settings.get("model_digest")) is not None and recorded != folder_digest(before):
            what, rule = f"{before} has changed since {folder} was made from it", "its answers would be others"
            raise PowerBertError(what, rule=rule, remedy=remedy)
        seen.add(before)
        folder = before
    if eliminates and not seen:
        what = f"which fine-tuned model teaches? {model} has elimination and no record of where it came from"
        raise PowerBertError(what, remedy=remedy)
    return folder


def check_teacher(folder: Path, task: Task, student: Any, tokenizer: Any, *, vectors: bool) -> None:
    """Refuse a teacher that does not answer the task, or does not read what the student reads."""
    remedy = "give another --teacher, or --distillation 0"
    teacher, own = load(folder)
    check_head(teacher, folder, task, remedy)
    if own.get_vocab() != tokenizer.get_vocab():
        rule = "both must have the same vocabulary"
        raise UnsupportedModelError(f"{folder} cannot teach this model", rule=rule, remedy=remedy)
    sizes = teacher.config.hidden_size, student.config.hidden_size
    if vectors and sizes[0] != sizes[1]:
        what = "--hidden-weight compares CLS vectors of one size"
        raise UnsupportedModelError(what, got=sizes, remedy="give --hidden-weight 0")


class CLSVectors:
    """The CLS vectors of a model's last forward pass: the final ones, or those after some encoders, numbered from 1.

    An encoder of transformers is called as a whole in the model's own forward pass alone: not with elimination.
    """

    def __init__(self, model: Any, encoders: Sequence[int] = ()) -> None:
        base = model.base_model
        modules = [family_of(base).encoders(base)[j - 1] for j in encoders] or [base]
        self.last: list[Tensor] = [torch.empty(0)] * len(modules)
        self.hooks = [module.register_forward_hook(partial(self._remember, i)) for i, module in enumerate(modules)]

    def of(self, rows: int) -> Tensor:
        """(rows, encoders * hidden); for multiple choice (rows, choices * encoders * hidden)."""
        return torch.stack(self.last, dim=1).reshape(rows, -1)

    def remove(self) -> None:
        """Remember no more."""
        for hook in self.hooks:
            hook.remove()

    def _remember(self, place: int, module: Any, arguments: Any, output: Any) -> None:
        states = output if isinstance(output, Tensor) else output[0]  # (batch, length, hidden)
        self.last[place] = states[:, 0]


class _Teacher(TorchEngine):
    """A model whose answer to an input is its logits and then its CLS vectors: the final one, or those of encoders."""

    def __init__(self, model: Any, tokenizer: Any, tokens: int, encoders: Sequence[int], *, packed: bool) -> None:
        super().__init__(model, tokenizer, packed=packed, unpadded=not encoders)
        self.vectors, self.pace, self.tokens = CLSVectors(model, encoders), Pace(), tokens

    @override
    def answer(self, inputs: dict[str, Integers], retained: bool) -> Answer:
        start = time.perf_counter()
        logits = super().answer(inputs, retained).logits
        vectors = self.vectors.of(len(logits)).float().numpy(force=True)
        if self.pace.count(int(inputs["attention_mask"].sum()), time.perf_counter() - start):
            logger.info("the teacher's answers: %s", self.pace.left(self.tokens - sum(self.pace.tokens)))
        return Answer(numpy.concatenate([logits, vectors], axis=1), None)


def with_answers(
    encoded: Dataset, teacher: Any, tokenizer: Any, *, vectors: bool, encoders: Sequence[int] = (), half: bool = False
) -> Dataset:
    """Add the teacher's answers as a column: its logits and then, if asked for, its final CLS vectors.

    encoders: give the CLS vectors after these encoders, numbered from 1, instead of the final ones.
    half: run its matrix products in bf16, as those of the training are; packed weights would be fp32.
    """
    encoded = encoded.remove_columns([TEACHER] if TEACHER in encoded.column_names else [])
    rows = list(flattened(list(encoded)))
    with (
        _Teacher(teacher, tokenizer, sum(len(row["input_ids"]) for row in rows), encoders, packed=not half) as engine,
        torch.autocast(teacher.device.type, torch.bfloat16, enabled=half),
    ):
        answers = numpy.stack(answer_rows(engine, rows, most=32))
        engine.vectors.remove()
    labels = teacher.config.num_labels if len(answers) == len(encoded) else 1  # a choice has one
    logits, hidden = (part.reshape(len(encoded), -1) for part in numpy.split(answers, [labels], axis=1))
    return encoded.add_column(TEACHER, list(numpy.concatenate([logits, hidden], axis=1) if vectors else logits))


class Distillation:
    """Re-training on the step-1 model's answers beside the labels; the batch brings them (`teacher`)."""

    def __init__(self, student: Any, task: Task, options: RetrainOptions) -> None:
        self.task, self.options = task, options
        self.vectors = CLSVectors(student) if options.hidden_weight > 0 else None

    def __call__(self, model: Any, inputs: dict[str, Tensor], outputs: Any, step: int) -> Tensor:
        """Weigh labels, the teacher's logits and, if asked for, its final CLS vector."""
        weight, logits = self.options.distillation, outputs["logits"]
        answers, vectors = inputs[TEACHER].tensor_split([logits.shape[1]], dim=1)
        soft = answer_distance(logits, answers, self.task, self.options.temperature)
        loss: Tensor = (1 - weight) * outputs["loss"] + weight * soft
        if self.vectors is not None:
            loss = loss + self.options.hidden_weight * mse_loss(self.vectors.of(len(logits)), vectors)
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
    own, taught = ((side / temperature).log_softmax(dim=-1) for side in (logits, answers))
    return kl_div(own, taught, reduction="batchmean", log_target=True) * temperature**2
