"""What is trained for a comparison: every method, in every size. Oracle: counts by hand."""

from __future__ import annotations

import json

import pytest
from model_folders import refusal

import powerbert
from powerbert.errors import PowerBertError
from powerbert.modeling.apply import elimination_of, encoders_of
from powerbert.modeling.attention_heads import all_heads
from powerbert.studies.contenders import IN_STUDENT, METHODS, OURS, Sizes, Trainings


def test_the_papers_sizes_are_the_default(compared_tiny):
    _, _, trainings = compared_tiny
    of_twelve = [round(12 * share) for share in Sizes().depths]
    assert of_twelve == [3, 4, 6]
    assert len(Sizes().budgets) >= 4
    assert min(len(Sizes().heads), len(Sizes().cuts)) >= 3
    assert trainings.depths == [2]


def test_every_method_has_the_models_that_its_name_says(compared_tiny):
    root, _, trainings = compared_tiny
    found = {name: trainings.of(name) for name in METHODS}  # all of them are there already
    assert {name: len(own) for name, own in found.items()} == {
        **dict.fromkeys(METHODS, 1),
        **dict.fromkeys((OURS, "Head-WS", "Rand-WS"), 2),
    }
    models = {name: powerbert.load(own[0].folder)[0] for name, own in found.items()}
    for name in (IN_STUDENT, "DistilBERT", "BERT-PKD skip", "BERT-PKD last"):
        assert encoders_of(models[name]) == 2
    assert elimination_of(models["first encoders"]).retention.fractions == (1, 1, 0, 0)
    assert sum(all_heads(models["Head-Prune"])) == 8
    strategies = {name: elimination_of(models[name]).strategy for name in (OURS, IN_STUDENT, "Head-WS", "Rand-WS")}
    assert [*strategies.values()] == ["attn-ws", "attn-ws", "head-ws", "rand-ws"]
    assert elimination_of(models["truncation"]) is None
    settings = json.loads((found[IN_STUDENT][0].folder / "run.json").read_text())["settings"]
    assert settings["model"] == str(found["DistilBERT"][0].folder)
    assert settings["teacher"] == str((root / "out" / "seed-0" / "fine-tuned").resolve())


def test_an_unknown_method_is_one_line(compared_tiny):
    _, _, trainings = compared_tiny
    assert isinstance(trainings, Trainings)
    assert "one of PoWER-BERT," in refusal(PowerBertError, lambda: trainings.of("magic"))


@pytest.mark.parametrize("method", [OURS, "Head-WS"])
def test_budgets_that_a_shallow_model_cannot_spend_are_left_out(compared_tiny, method):
    _, _, trainings = compared_tiny
    assert all(point.budget is not None for point in trainings.of(method))
    assert 0.01 in trainings.sizes.budgets
