"""DistilBERT's way: alternate encoders of the teacher, taught by its logits and by its hidden states.

Paper: Baseline methods

DistilBERT distils once, on the text of its pretraining. Here the teacher is the fine-tuned model and the text is the
task's: labels stand for the masked words of its loss, the other two parts are its own.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from powerbert.baselines.students import StudentOptions, alternate, check_depth, student_of
from powerbert.modeling.apply import encoders_of
from powerbert.tasks.task import Task
from powerbert.training.data import Data
from powerbert.training.heads import fine_tuned
from powerbert.training.runner import Folder, StepResult, begin
from powerbert.training.teacher import answer_distance, without_labels


def distilbert(
    model: Folder,
    data: Data,
    output: Folder,
    options: StudentOptions | None = None,
    *,
    encoders: int,
    progress: bool = False,
) -> StepResult:
    """Distil a fine-tuned model into a student of so many encoders, as DistilBERT does; resumes as every step does.

    model: the fine-tuned model, which is the teacher.
    """
    teacher, tokenizer = fine_tuned(model, data.task)
    check_depth(encoders, encoders_of(teacher))
    student = student_of(teacher, alternate(encoders, encoders_of(teacher)))
    options = options or StudentOptions()
    width = student.config.hidden_size
    with begin(
        "baselines.distilbert", model, data, output, options, width, progress=progress, encoders=encoders
    ) as run:
        if run.finished:
            return run.result()
        run.encode(student, tokenizer)
        run.train(objective=HiddenDistillation(student, teacher, data.task, run.options))
        return run.finish()


class HiddenDistillation:
    """Labels, the teacher's logits, and the cosine distance of the final states of all words.

    The teacher answers in the same step. Its states at every word are too many to be stored: a million words of
    gte-small have 1.5 GB of them. It costs a forward pass, a third of a training step of as many encoders.
    """

    def __init__(self, student: Any, teacher: Any, task: Task, options: StudentOptions) -> None:
        self.teacher, self.task, self.options = teacher.eval(), task, options
        self.own, self.taught = FinalStates(student), FinalStates(teacher)

    def __call__(self, model: Any, inputs: dict[str, Tensor], outputs: Any, step: int) -> Tensor:
        """Weigh the three parts."""
        weight, logits = self.options.distillation, outputs["logits"]
        half = self.options.precision == "bf16"
        with torch.no_grad(), torch.autocast(model.device.type, torch.bfloat16, enabled=half):
            answers = self.teacher.to(model.device)(**without_labels(inputs)).logits.float()
        soft = answer_distance(logits, answers, self.task, self.options.temperature)
        real = inputs["attention_mask"].flatten(0, -2).bool()  # the choices of a question are rows of their own
        apart = cosine_distance(self.own.last, self.taught.last, real)
        return (1 - weight) * outputs["loss"] + weight * soft + self.options.hidden_weight * apart


class FinalStates:
    """The final states of all words in a model's last forward pass, which is its own and eliminates nothing."""

    def __init__(self, model: Any) -> None:
        self.last = torch.empty(0)  # (batch, length, hidden)
        model.base_model.register_forward_hook(self._remember)

    def _remember(self, module: Any, arguments: Any, output: Any) -> None:
        self.last = output[0]


def cosine_distance(own: Tensor, taught: Tensor, real: Tensor) -> Tensor:
    """One minus the cosine, mean over real words; (batch, length, hidden) twice, and (batch, length) without PAD."""
    return (1 - cosine_similarity(own.float(), taught.float(), dim=-1))[real].mean()
