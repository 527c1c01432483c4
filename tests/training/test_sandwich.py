"""The anytime recipe on a tiny model, and the shapes that it reports.

A shape spends its budget, never rises, and its early encoders retain more.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import batch_of, tiny
from runs import pretrained, small_data

import powerbert
from powerbert.errors import PowerBertError
from powerbert.modeling.apply import retention_of
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.registry import find_task
from powerbert.training import AnytimeOptions, Options, anytime, finetune
from powerbert.training.sandwich import Sandwich
from powerbert.training.shapes import LEAST, SHAPES, scaled, shaped, work

FAST = {"epochs": 1, "batch_size": 8}


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("anytime")
    return finetune(pretrained(folder / "encoder"), small_data(), folder / "one", Options(**FAST)).folder


def test_one_training_serves_every_configuration_of_the_table(one, tmp_path, caplog):
    with caplog.at_level("INFO", "powerbert.training"):
        result, table = anytime(one, small_data(), tmp_path / "any", AnytimeOptions(**FAST), budgets=(0.5,))
    assert [row["name"] for row in table] == ["full", "late 0.5", "linear 0.5", "flat 0.5"]
    assert table[0]["value"] == result.evaluation.value
    assert table[0]["work"] == 1.0
    assert all(row["work"] < 0.75 for row in table[1:])
    assert retention_of(powerbert.load(tmp_path / "any")[0]) is None
    # Oracle: 1 in full, .35 at the smallest, and the mean of shares drawn between, never rising.
    worth = next(line for line in caplog.messages if "epochs of fine-tuning" in line)
    assert 1.35 + 0.35 < float(worth.split("what ")[1].split()[0]) < 1.35 + 0.7
    assert "4 configurations" in worth


def test_a_folder_without_a_configuration_is_refused_before_the_training(one, tmp_path):
    with pytest.raises(PowerBertError, match="carries no retention"):
        anytime(one, small_data(), tmp_path / "any", learned=[one])
    assert not list(tmp_path.iterdir())


def test_the_sandwich_adds_the_smallest_and_a_random_configuration():
    model = tiny("bert")
    batch = batch_of([15, 9]) | {"labels": torch.tensor([0, 1])}
    objective = Sandwich(shaped("linear", 4, 0.4), find_task("SST-2"), 1.0, seed=0)
    losses = [float(objective(model, batch, model(**batch), step).detach()) for step in (0, 0, 1)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)  # decided by seed and step alone
    assert losses[0] != pytest.approx(losses[2], abs=1e-6)
    assert losses[0] > float(model(**batch).loss.detach())
    assert retention_of(model).is_full  # left as it was found


def test_the_sandwich_of_a_regression_is_a_distance_although_the_head_does_not_say_what_it_is():
    model = tiny("bert", num_labels=1)  # as cross-encoders are published: `problem_type` is null
    assert model.config.problem_type is None
    batch = batch_of([15, 9])
    with torch.no_grad():
        outputs = {"logits": model(**batch).logits, "loss": torch.tensor(0.0)}
        loss = Sandwich(shaped("linear", 4, 0.4), find_task("STS-B"), 1.0, seed=0)(model, batch, outputs, 0)
    assert float(loss) > 1e-6  # KL of one logit would be 0


@given(st.sampled_from(list(SHAPES)), st.integers(2, 24), st.floats(0.15, 1.0))
def test_every_shape_spends_its_budget_and_never_rises(name, encoders, budget):
    least = work([1.0] + [LEAST] * (encoders - 1))  # a linear fall starts with all
    if name == "linear" and budget < least:
        with pytest.raises(PowerBertError, match="at least"):
            shaped("linear", encoders, budget)
        return
    retention = shaped(name, encoders, budget)
    assert len(retention) == encoders
    assert retention.is_relative
    assert work(retention.fractions) == pytest.approx(budget, abs=0.005)


def test_late_retains_more_early_and_less_late_than_linear():
    early, steady = shaped("late", 12, 0.5).fractions, shaped("linear", 12, 0.5).fractions
    assert early[3] > steady[3]
    assert early[9] < steady[9]


@given(st.floats(0.1, 0.9))
def test_a_learned_shape_is_raised_or_lowered_to_a_budget(budget):
    learned = RetentionConfiguration.relative((0.9, 0.8, 0.5, 0.2))
    moved = scaled(learned, budget)
    assert work(moved.fractions) == pytest.approx(budget, abs=0.005)


@given(st.integers(0, 999))
def test_random_configurations_lie_between_the_smallest_and_full(seed):
    smallest = shaped("linear", 12, 0.35)
    drawn = Sandwich(smallest, find_task("SST-2"), 1.0, seed).drawn(step=seed)
    assert all(low <= share + 1e-9 for low, share in zip(smallest.fractions, drawn.fractions, strict=True))


@pytest.mark.parametrize("budget", [0.0, 1.5, -1, float("nan")])
def test_an_impossible_budget_is_refused(budget):
    with pytest.raises(PowerBertError, match="share of the work"):
        shaped("linear", 12, budget)
