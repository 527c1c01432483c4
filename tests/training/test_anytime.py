"""The anytime recipe on a tiny model: one set of weights, a table of configurations."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from models import batch_of, tiny

import powerbert
from powerbert.modeling.apply import retention_of
from powerbert.training.anytime import anytime
from powerbert.training.objectives import Distillation, Sandwich, answer_distance, without_labels
from powerbert.training.options import AnytimeOptions, Options, RetrainOptions
from powerbert.training.shapes import linear
from powerbert.training.steps import Run, finetune

sys.path.insert(0, str(Path(__file__).parent))
from runs import pretrained, small_data


def test_one_training_serves_every_configuration_of_the_table(tmp_path):
    data = small_data()
    pretrained(tmp_path / "pretrained")
    finetune(
        Run("finetune", tmp_path / "pretrained", data, tmp_path / "one", Options(epochs=1, batch_size=8))
    )
    options = AnytimeOptions(epochs=1, batch_size=8)
    result, table = anytime(Run("anytime", tmp_path / "one", data, tmp_path / "any", options), budgets=(0.5,))
    assert [row["name"] for row in table] == ["full", "late 0.5", "linear 0.5", "flat 0.5"]
    assert table[0]["value"] == result.evaluation.value
    assert table[0]["work"] == 1.0
    assert all(row["work"] < 0.75 for row in table[1:])
    assert retention_of(powerbert.load(tmp_path / "any")[0]) is None


def test_the_sandwich_adds_the_smallest_and_a_random_configuration():
    model = tiny("bert")
    smallest = linear(4, 0.4)
    batch = batch_of([15, 9]) | {"labels": torch.tensor([0, 1])}
    objective = Sandwich(smallest, 1.0, seed=0)
    losses = [float(objective(model, batch, model(**batch), step).detach()) for step in (0, 0, 1)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)  # decided by seed and step alone
    assert losses[0] != pytest.approx(losses[2], abs=1e-6)
    assert losses[0] > float(model(**batch).loss.detach())
    assert retention_of(model).is_full  # left as it was found


def test_distillation_from_itself_pulls_nowhere_and_reads_the_cls_vector():
    student = tiny("bert")
    batch = batch_of([15, 9]) | {"labels": torch.tensor([0, 1])}
    with torch.no_grad():  # what the same weights answer, and their final CLS vectors
        answers = student(**batch).logits, student.bert(**without_labels(batch))[0][:, 0]
    taught = batch | {"teacher": torch.cat(answers, dim=1)}
    whole = Distillation(student, RetrainOptions(distillation=1.0, hidden_weight=1.0))
    assert float(whole(student, taught, student(**batch), 0).detach()) == pytest.approx(0.0, abs=1e-5)
    with torch.no_grad():
        student.bert.encoder.layer[3].output.dense.weight.mul_(2)
    assert float(whole(student, taught, student(**batch), 0).detach()) > 1e-3


def test_the_distance_of_answers_is_kl_or_squared_error():
    logits, answers = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    p, q = answers.softmax(-1), logits.softmax(-1)
    assert float(answer_distance(logits, answers, 1.0, False)) == pytest.approx(
        float((p * (p / q).log()).sum())
    )
    assert float(answer_distance(logits, answers, 1.0, True)) == 1.0
