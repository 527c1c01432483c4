"""Every kind of task through both recipes: what one step writes, the next one reads."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from datasets import Dataset

import powerbert
from powerbert.modeling.apply import retention_of
from powerbert.tasks.readers import read_splits
from powerbert.tasks.registry import find_task, own_task
from powerbert.training.anytime import anytime
from powerbert.training.data import Data
from powerbert.training.heads import has_head
from powerbert.training.options import AnytimeOptions, Options, RetrainOptions, SearchOptions
from powerbert.training.steps import Run, finetune, retrain, search

sys.path.insert(0, str(Path(__file__).parent))
from models import tiny
from runs import FILLER, pretrained


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
    data, common = Data.of(task, splits), {"epochs": 1, "batch_size": 4}

    def run(step, model, folder, options):
        return Run(step, model, data, tmp_path / folder, options, max_length=32)

    one = finetune(run("finetune", pretrained(tmp_path / "pretrained"), "one", Options(**common)))
    two = search(run("search", one.folder, "two", SearchOptions(bins=8, **common)))
    three = retrain(run("retrain", two.folder, "three", RetrainOptions(**common)))
    whole, table = anytime(run("anytime", one.folder, "any", AnytimeOptions(**common)), [two.folder], [0.5])
    for result in (one, two, three, whole):
        assert type(powerbert.load(result.folder)[0]).__name__ == CLASSES[name]
        assert json.loads((result.folder / "run.json").read_text())["result"]["evaluation"]["rows"] == 12
    assert retention_of(powerbert.load(three.folder)[0]) == two.retention
    assert {row["rows"] for row in table} == {12}


@pytest.mark.parametrize(
    ("own", "asked", "same"),
    [
        (["NEGATIVE", "POSITIVE"], ["negative", "positive"], True),
        (["positive", "negative"], ["negative", "positive"], False),
        (["LABEL_0", "LABEL_1"], ["negative", "positive"], False),
        (["Yes", "yes"], ["yes", "Yes"], False),  # two classes that differ by case alone
        (["Yes", "yes"], ["Yes", "yes"], True),
    ],
)
def test_a_head_with_the_same_labels_in_another_case_is_the_tasks(own, asked, same):
    model = tiny("bert", "ForSequenceClassification")
    model.config.id2label = dict(enumerate(own))
    assert has_head(model, own_task("text").with_labels(asked)) is same


def test_a_model_for_sst_2_keeps_its_head():
    model = tiny("bert", "ForSequenceClassification")
    model.config.id2label = {0: "NEGATIVE", 1: "POSITIVE"}
    assert has_head(model, find_task("SST-2"))
