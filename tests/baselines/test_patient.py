"""BERT-PKD: which encoders follow which, its loss against a slow loop, and its folder."""

from __future__ import annotations

import math

import pytest
import torch
from model_folders import refusal
from models import batch_of, tiny
from texts import tokenizer_for

import powerbert
from powerbert.baselines import StudentOptions, bert_pkd
from powerbert.baselines.patient import PatientDistillation, patience, patient_encoders
from powerbert.baselines.students import student_of
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.modeling.apply import encoders_of
from powerbert.tasks.encoding import encode_split
from powerbert.tasks.registry import find_task
from powerbert.text.batches import Collator
from powerbert.training.teacher import with_answers


def slow_patience(own, taught):
    """The squared distance of two normalised vectors, number by number, mean over pairs of vectors."""
    found = []
    for a, b in zip(own.tolist(), taught.tolist(), strict=True):
        a, b = ([x / math.sqrt(sum(y * y for y in each)) for x in each] for each in (a, b))
        found.append(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
    return sum(found) / len(found)


def test_the_encoders_that_are_followed_are_those_of_the_publication():
    """Oracle: Sun et al. (2019), figure 1 and section 3.2, for 6 of 12."""
    assert patient_encoders(6, 12, "skip") == [2, 4, 6, 8, 10]
    assert patient_encoders(6, 12, "last") == [7, 8, 9, 10, 11]
    assert patient_encoders(3, 12, "skip") == [4, 8]
    assert patient_encoders(3, 12, "last") == [10, 11]
    for of in range(3, 25):
        for k in range(2, of):
            for variant in ("skip", "last"):
                found = patient_encoders(k, of, variant)
                assert len({*found}) == k - 1
                assert 1 <= min(found) <= max(found) < of


def test_patience_is_the_distance_of_normalised_vectors():
    generator = torch.Generator().manual_seed(0)
    own, taught = (torch.randn(6, 7, generator=generator) for _ in range(2))
    assert float(patience(own, taught)) == pytest.approx(slow_patience(own, taught), abs=1e-6)
    assert float(patience(own, 5 * own)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("head", "task"), [("ForSequenceClassification", "SST-2"), ("ForMultipleChoice", "RACE")])
def test_the_loss_is_labels_logits_and_cls_after_each_encoder_but_the_last(head, task):
    teacher = tiny("bert", head)
    student = student_of(teacher, [1, 2, 3])
    batch = batch_of([9, 5, 7, 3])
    with torch.no_grad():
        states = [model.bert(**batch, output_hidden_states=True).hidden_states for model in (student, teacher)]
        # (rows, encoders, hidden): the student's encoders 1 and 2 follow the teacher's 2 and 3.
        own, taught = (
            torch.stack([each[j][:, 0] for j in js], 1) for each, js in zip(states, ((1, 2), (2, 3)), strict=True)
        )
    if head == "ForMultipleChoice":
        batch = {name: rows.reshape(1, 4, -1) for name, rows in batch.items()}
    batch["labels"] = torch.zeros(len(batch["input_ids"]), dtype=torch.long)
    objective = PatientDistillation(student, find_task(task), StudentOptions(distillation=0.4, hidden_weight=0.7))
    outputs = student(**batch)
    answers = outputs.logits.detach()  # of a teacher that agrees: its part of the loss is 0
    column = torch.cat([answers, taught.reshape(len(answers), -1)], dim=1)
    found = float(objective(student, batch | {"teacher": column}, outputs, 0).detach())
    apart = slow_patience(own.reshape(-1, 24), taught.reshape(-1, 24))
    assert found == pytest.approx(0.6 * float(outputs.loss.detach()) + 0.7 * apart, abs=1e-5)


def test_the_teachers_cls_vectors_are_those_after_the_named_encoders(tuned):
    tokenizer, teacher = tokenizer_for(), tiny("bert")
    encoded = encode_split(tuned.data.splits["train"], tuned.data.task, tokenizer, 32)
    answered = with_answers(encoded, teacher, tokenizer, vectors=True, encoders=(2, 3))
    for row in (0, 7, 47):
        batch = Collator(tokenizer)([answered[row]])
        with torch.no_grad():  # the oracle: the row alone through the plain model
            output = teacher(input_ids=batch["input_ids"], output_hidden_states=True)
        expected = torch.cat([output.logits, *(output.hidden_states[j][:, 0] for j in (2, 3))], dim=1)
        torch.testing.assert_close(batch["teacher"], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("variant", ["skip", "last"])
def test_it_leaves_a_folder_of_the_first_encoders_and_is_not_done_twice(tuned, tmp_path, variant):
    options = StudentOptions(**tuned.short | {"learning_rate": 1e-12})
    result = bert_pkd(tuned.folder, tuned.data, tmp_path / "three", options, encoders=3, variant=variant)
    model, (teacher, _) = powerbert.load(result.folder)[0], powerbert.load(tuned.folder)
    assert encoders_of(model) == model.config.num_hidden_layers == 3
    for own, first in zip(model.bert.encoder.layer, teacher.bert.encoder.layer[:3], strict=True):
        for name, weight in first.state_dict().items():  # nothing was learned at such a rate
            torch.testing.assert_close(own.state_dict()[name], weight, atol=1e-6, rtol=1e-5)
    assert bert_pkd(tuned.folder, tuned.data, tmp_path / "three", options, encoders=3, variant=variant).skipped


def test_bad_input_is_one_line_and_writes_nothing(tuned, tmp_path):
    def call(folder=tuned.folder, **asked):
        return lambda: bert_pkd(folder, tuned.data, tmp_path / "a", **asked)

    assert "from 2 to 3: the model has 4" in refusal(PowerBertError, call(encoders=1))
    assert "one of skip, last" in refusal(PowerBertError, call(encoders=2, variant="first"))
    assert "run finetune first" in refusal(UnsupportedModelError, call(tuned.encoder, encoders=2))
    assert not list(tmp_path.iterdir())
