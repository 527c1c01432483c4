"""BERT-PKD, patient knowledge distillation: CLS after each encoder of the student follows one of the teacher.

Paper: Baseline methods
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from powerbert.baselines.students import StudentOptions, check_depth, student_of
from powerbert.errors import PowerBertError
from powerbert.modeling.apply import encoders_of
from powerbert.tasks.task import Task
from powerbert.text.batches import TEACHER
from powerbert.training.data import Data
from powerbert.training.heads import fine_tuned
from powerbert.training.runner import Folder, StepResult, begin
from powerbert.training.teacher import CLSVectors, answer_distance, with_answers

VARIANTS = ("skip", "last")


def bert_pkd(
    model: Folder,
    data: Data,
    output: Folder,
    options: StudentOptions | None = None,
    *,
    encoders: int,
    variant: str = "skip",
    progress: bool = False,
) -> StepResult:
    """Distil a fine-tuned model patiently into its own first encoders, so many; resumes as every step does.

    model: the fine-tuned model, which is the teacher.
    variant: which encoders of the teacher are followed, "skip" for evenly spread ones, "last" for the last ones.
    """
    if variant not in VARIANTS:
        raise PowerBertError("unknown variant of BERT-PKD", got=variant, rule="one of " + ", ".join(VARIANTS))
    teacher, tokenizer = fine_tuned(model, data.task)
    check_depth(encoders, encoders_of(teacher), least=2)  # the last one has no CLS vector to follow, only answers
    followed = patient_encoders(encoders, encoders_of(teacher), variant)
    student = student_of(teacher, range(1, encoders + 1))
    options, more = options or StudentOptions(), {"encoders": encoders, "variant": variant}
    width = student.config.hidden_size
    with begin("baselines.bert_pkd", model, data, output, options, width, progress=progress, **more) as run:
        if run.finished:
            return run.result()
        rows, half = run.encode(student, tokenizer).splits["train"], run.options.precision == "bf16"
        # Asked once: CLS vectors of a few encoders are small, some kilobytes an input, and never change.
        rows = with_answers(rows, teacher, tokenizer, vectors=True, encoders=followed, half=half)
        run.train(rows, objective=PatientDistillation(student, data.task, run.options))
        return run.finish()


def patient_encoders(encoders: int, of: int, variant: str) -> list[int]:
    """The encoders of the teacher that those of the student follow, all but its last; numbered from 1.

    >>> patient_encoders(6, 12, "skip"), patient_encoders(6, 12, "last")
    ([2, 4, 6, 8, 10], [7, 8, 9, 10, 11])
    """
    if variant == "last":
        return list(range(of - encoders + 1, of))
    return [round(i * of / encoders) for i in range(1, encoders)]


class PatientDistillation:
    """Labels, the teacher's logits, and the distance of normalised CLS vectors after each encoder but the last.

    The batch brings the teacher's logits and CLS vectors (`teacher`).
    """

    def __init__(self, student: Any, task: Task, options: StudentOptions) -> None:
        self.task, self.options, self.hidden = task, options, student.config.hidden_size
        self.vectors = CLSVectors(student, range(1, encoders_of(student)))

    def __call__(self, model: Any, inputs: dict[str, Tensor], outputs: Any, step: int) -> Tensor:
        """Weigh the three parts."""
        weight, logits = self.options.distillation, outputs["logits"]
        answers, followed = inputs[TEACHER].tensor_split([logits.shape[1]], dim=1)
        soft = answer_distance(logits, answers, self.task, self.options.temperature)
        own, taught = (each.reshape(-1, self.hidden) for each in (self.vectors.of(len(logits)), followed))
        return (1 - weight) * outputs["loss"] + weight * soft + self.options.hidden_weight * patience(own, taught)


def patience(own: Tensor, taught: Tensor) -> Tensor:
    """The squared distance of normalised vectors (vectors, hidden), mean over them."""
    apart: Tensor = normalize(own.float(), dim=-1) - normalize(taught, dim=-1)
    return torch.square(apart).sum(dim=-1).mean()
