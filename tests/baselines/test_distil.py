"""DistilBERT's way: its loss against a slow loop, its folder, and that it resumes."""

from __future__ import annotations

import json
import math

import pytest
import torch
from model_folders import refusal
from models import batch_of, tiny

import powerbert
from powerbert.baselines import StudentOptions, distilbert
from powerbert.baselines.distil import HiddenDistillation, cosine_distance
from powerbert.baselines.students import student_of
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.modeling.apply import encoders_of
from powerbert.tasks.registry import find_task
from powerbert.training.teacher import teacher_of, without_labels


def slow_cosines(own, taught, real):
    """The mean over real words of one minus the cosine, number by number."""
    found = []
    for i, row in enumerate(real.tolist()):
        for j, is_real in enumerate(row):
            if is_real:
                a, b = own[i, j].tolist(), taught[i, j].tolist()
                dot = sum(x * y for x, y in zip(a, b, strict=True))
                found.append(1 - dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b)))
    return sum(found) / len(found)


def test_the_cosine_distance_counts_real_words_alone():
    generator = torch.Generator().manual_seed(0)
    own, taught = (torch.randn(3, 5, 7, generator=generator) for _ in range(2))
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]).bool()
    assert float(cosine_distance(own, taught, real)) == pytest.approx(slow_cosines(own, taught, real), abs=1e-6)
    assert float(cosine_distance(own, 3 * own, real)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("head", "task"), [("ForSequenceClassification", "SST-2"), ("ForMultipleChoice", "RACE")])
def test_the_loss_is_labels_logits_and_states(head, task):
    teacher, temperature = tiny("bert", head), 3.0
    student = student_of(teacher, [1, 3])
    batch = batch_of([9, 5, 7, 3])
    if head == "ForMultipleChoice":
        batch = {name: rows.reshape(1, 4, -1) for name, rows in batch.items()}
    batch["labels"] = torch.zeros(len(batch["input_ids"]), dtype=torch.long)
    options = StudentOptions(distillation=0.3, temperature=temperature, hidden_weight=0.7)
    objective = HiddenDistillation(student, teacher, find_task(task), options)
    outputs = student(**batch)
    found = float(objective(student, batch, outputs, 0).detach())
    with torch.no_grad():
        p = (teacher(**without_labels(batch)).logits / temperature).softmax(-1)
        q = (outputs.logits / temperature).softmax(-1)
        flat = {name: rows.flatten(0, -2) for name, rows in without_labels(batch).items()}
        states = [model.bert(**flat)[0] for model in (student, teacher)]
    kl = (
        sum(float(a * math.log(a / b)) for a, b in zip(p.flatten(), q.flatten(), strict=True)) / len(p) * temperature**2
    )
    apart = slow_cosines(*states, flat["attention_mask"])
    assert found == pytest.approx(0.7 * float(outputs.loss.detach()) + 0.3 * kl + 0.7 * apart, abs=1e-4)


def test_the_teacher_does_not_learn():
    teacher = tiny("bert")
    student = student_of(teacher, [1, 3])
    batch = batch_of([9, 5]) | {"labels": torch.tensor([0, 1])}
    objective = HiddenDistillation(student, teacher, find_task("SST-2"), StudentOptions())
    objective(student, batch, student(**batch), 0).backward()
    assert all(weight.grad is None for weight in teacher.parameters())
    assert sum(weight.grad is not None for weight in student.parameters()) > 20


def test_it_leaves_a_folder_of_fewer_encoders_and_is_not_done_twice(tuned, tmp_path):
    options = StudentOptions(**tuned.short)
    result = distilbert(tuned.folder, tuned.data, tmp_path / "two", options, encoders=2)
    model, _ = powerbert.load(result.folder)
    assert encoders_of(model) == model.config.num_hidden_layers == 2
    assert result.evaluation.word_vectors * 2 == powerbert_words(tuned)
    assert json.loads((result.folder / "run.json").read_text())["settings"]["encoders"] == 2
    assert teacher_of(result.folder, eliminates=False) == tuned.folder.resolve()
    assert distilbert(tuned.folder, tuned.data, tmp_path / "two", options, encoders=2).skipped
    with pytest.raises(PowerBertError, match="other encoders"):
        distilbert(tuned.folder, tuned.data, tmp_path / "two", options, encoders=3)


def powerbert_words(tuned):
    """Word-vectors that all encoders of the teacher process on dev."""
    return json.loads((tuned.folder / "run.json").read_text())["result"]["evaluation"]["word_vectors"]


def test_bad_input_is_one_line_and_writes_nothing(tuned, tmp_path):
    for k in (0, 4, 99):
        call = lambda k=k: distilbert(tuned.folder, tuned.data, tmp_path / "a", encoders=k)  # noqa: E731
        assert "from 1 to 3: the model has 4" in refusal(PowerBertError, call)
    message = refusal(UnsupportedModelError, lambda: distilbert(tuned.encoder, tuned.data, tmp_path / "a", encoders=2))
    assert "run finetune first" in message
    assert not list(tmp_path.iterdir())
