"""Which models answer a task, and every kind of task through both recipes."""

from __future__ import annotations

import json
import random

import pytest
import torch
from datasets import Dataset
from models import FAMILIES, batch_of, tiny
from runs import FILLER, pretrained
from texts import tokenizer_for

import powerbert
from powerbert.modeling.apply import retention_of
from powerbert.tasks.readers import read_splits
from powerbert.tasks.registry import find_task, own_task
from powerbert.training import (
    AnytimeOptions,
    Data,
    Options,
    RetrainOptions,
    SearchOptions,
    anytime,
    finetune,
    retrain,
    search,
)
from powerbert.training.heads import has_head, model_for, start_at_mean


def words(rng):
    return " ".join(rng.choices(FILLER, k=rng.randint(3, 9)))


def similar(rng, i):
    """A row of STS-B."""
    return {"sentence1": f"{words(rng)} {i}", "sentence2": words(rng), "label": float(i % 6)}


def exam(rng, i):
    """A row of RACE."""
    options = [f"{words(rng)} {i}" for _ in range(4)]
    return {"article": words(rng), "question": words(rng), "options": options, "answer": "ABCD"[i % 4]}


ROWS = {"STS-B": similar, "RACE": exam}
CLASSES = {"STS-B": "BertForSequenceClassification", "RACE": "BertForMultipleChoice"}


@pytest.mark.parametrize("name", ROWS)
def test_both_recipes_hand_a_model_of_this_kind_from_step_to_step(tmp_path, name):
    rng = random.Random(0)
    made = {split: Dataset.from_list([ROWS[name](rng, i) for i in range(12)]) for split in ("train", "dev")}
    task, splits = read_splits(made, find_task(name))
    data, common = Data.of(task, splits, max_length=32), {"epochs": 1, "batch_size": 4, "accumulation": 1}
    one = finetune(pretrained(tmp_path / "pretrained"), data, tmp_path / "one", Options(**common))
    two = search(one.folder, data, tmp_path / "two", SearchOptions(bins=8, **common))
    three = retrain(two.folder, data, tmp_path / "three", RetrainOptions(**common))
    whole, table = anytime(one.folder, data, tmp_path / "any", AnytimeOptions(**common), budgets=[0.5])
    for result in (one, two, three, whole):
        assert type(powerbert.load(result.folder)[0]).__name__ == CLASSES[name]
        assert json.loads((result.folder / "run.json").read_text())["result"]["evaluation"]["rows"] == 12
    assert retention_of(powerbert.load(three.folder)[0]) == two.retention
    assert {row["rows"] for row in table} == {12}


SST, STS = find_task("SST-2"), find_task("STS-B")


@pytest.mark.parametrize(
    ("names", "problem", "expected"),
    [
        (("negative", "positive"), None, True),
        (("NEGATIVE", "POSITIVE"), None, True),  # as most published classifiers spell them
        (("negative", "positive"), "multi_label_classification", False),
        (("positive", "negative"), None, False),
        (("LABEL_0", "LABEL_1"), None, False),
        (("negative", "neutral", "positive"), None, False),
    ],
)
def test_a_head_answers_a_task_of_the_same_labels_in_any_case(names, problem, expected):
    model = tiny("bert", num_labels=len(names))
    model.config.id2label, model.config.problem_type = dict(enumerate(names)), problem
    assert has_head(model, SST) == expected


def test_labels_that_differ_by_case_alone_are_compared_with_it():
    model = tiny("bert", num_labels=2)
    model.config.id2label = {0: "Yes", 1: "yes"}
    assert has_head(model, own_task("text").with_labels(["Yes", "yes"]))
    assert not has_head(model, own_task("text").with_labels(["yes", "Yes"]))


def test_a_head_of_one_number_answers_a_regression_whether_it_says_so_or_not():
    assert has_head(tiny("bert", num_labels=1), STS)
    assert has_head(tiny("bert", num_labels=1, problem_type="regression"), STS)
    assert not has_head(tiny("bert"), STS)


def test_a_head_that_is_replaced_is_told_in_one_line_and_a_bare_encoder_is_not(tmp_path, caplog):
    powerbert.save(tiny("bert"), tokenizer_for(), tmp_path / "nli")
    model, _, headed = model_for(tmp_path / "nli", SST, seed=0)
    assert not headed
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert len(caplog.messages) == 1
    assert "negative, positive" in caplog.messages[0]
    assert "LABEL_0, LABEL_1, LABEL_2" in caplog.messages[0]
    model_for(pretrained(tmp_path / "encoder"), SST, seed=0)
    assert len(caplog.messages) == 1


def test_a_model_with_labels_in_capitals_keeps_its_head_and_their_names(tmp_path):
    model = tiny("bert", num_labels=2)
    model.config.id2label = {0: "NEGATIVE", 1: "POSITIVE"}
    powerbert.save(model, tokenizer_for(), tmp_path / "sst")
    found, _, headed = model_for(tmp_path / "sst", SST, seed=0)
    assert headed
    assert found.config.id2label == {0: "NEGATIVE", 1: "POSITIVE"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_new_head_of_a_regression_begins_at_the_mean_of_the_labels(family):
    """Oracle: without the weights of its last layer a model answers that layer's bias."""
    model = tiny(family, num_labels=1)
    start_at_mean(model, [1.0, 2.0, 4.5])
    for each in model.modules():
        if isinstance(each, torch.nn.Linear) and each.out_features == 1:
            torch.nn.init.zeros_(each.weight)
    assert model(**batch_of([9, 5])).logits.flatten().tolist() == pytest.approx([2.5, 2.5])
