"""What is added to the labels: distillation and the distances it is made of."""

from __future__ import annotations

import pytest
import torch
from models import batch_of, tiny

from powerbert.tasks.registry import find_task
from powerbert.training import RetrainOptions
from powerbert.training.objectives import Distillation, ReleaseRegulariser, answer_distance, without_labels
from powerbert.training.retention_parameters import RetentionParameters

CLASSES, NUMBER, CHOICES = (find_task(name) for name in ("SST-2", "STS-B", "RACE"))


def test_distillation_from_itself_pulls_nowhere_and_reads_the_cls_vector():
    student = tiny("bert")
    batch = batch_of([15, 9]) | {"labels": torch.tensor([0, 1])}
    with torch.no_grad():  # what the same weights answer, and their final CLS vectors
        answers = student(**batch).logits, student.bert(**without_labels(batch))[0][:, 0]
    taught = batch | {"teacher": torch.cat(answers, dim=1)}
    whole = Distillation(student, CLASSES, RetrainOptions(distillation=1.0, hidden_weight=1.0))
    assert float(whole(student, taught, student(**batch), 0).detach()) == pytest.approx(0.0, abs=1e-5)
    with torch.no_grad():
        student.bert.encoder.layer[3].output.dense.weight.mul_(2)
    assert float(whole(student, taught, student(**batch), 0).detach()) > 1e-3


def test_the_distance_of_answers_is_kl_or_squared_error():
    logits, answers = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    p, q = answers.softmax(-1), logits.softmax(-1)
    for task in (CLASSES, CHOICES):
        found = answer_distance(logits, answers, task, 1.0)
        assert float(found) == pytest.approx(float((p * (p / q).log()).sum()))
    assert float(answer_distance(logits, answers, NUMBER, 1.0)) == 1.0


def test_a_one_label_head_is_distilled_before_it_says_what_it_is():
    student = tiny("bert", num_labels=1)
    assert student.config.problem_type is None  # the first forward pass with labels sets it
    objective = Distillation(student, NUMBER, RetrainOptions(distillation=1.0))
    taught = batch_of([15, 9]) | {"labels": torch.tensor([1.0, 2.0]), "teacher": torch.full((2, 1), 9.0)}
    outputs = student(**without_labels(taught) | {"labels": taught["labels"]})
    expected = ((outputs.logits - 9.0) ** 2).mean()  # the oracle: squared error
    torch.testing.assert_close(objective(student, taught, outputs, 0), expected)


def test_the_releases_regulariser_is_in_the_loss():
    model = tiny("bert")
    r = RetentionParameters(model, bins=8)
    loss = ReleaseRegulariser(r, 0.5)(model, {}, {"loss": torch.tensor(2.0)}, 0)
    assert float(loss.detach()) == 2.0 + 0.5 * (1 + 2 + 3 + 4)  # every mass is 1
