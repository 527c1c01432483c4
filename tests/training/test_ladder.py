"""One re-training for many configurations; oracles: what each batch was given, and the folder's own dial."""

from __future__ import annotations

from collections import Counter

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
from powerbert.training import AnytimeOptions, Options, RetrainOptions, anytime, finetune, retrain
from powerbert.training.data import encode_data, evaluate
from powerbert.training.ladder import RUNGS as BUDGETS
from powerbert.training.ladder import Ladder, all_rungs, depths_of, least_budget, rung
from powerbert.training.shapes import first_encoders, work

SHARES = (1, 0.8, 0.6, 0.4), (1, 0.5, 0.3, 0.2), (1, 0.4, 0.2, 0)
FAST = {"epochs": 1, "batch_size": 16}
RUNGS = [RetentionConfiguration.relative(shares) for shares in SHARES]


def drawn(model, step: int, seed: int = 0, words: int = 1) -> RetentionConfiguration:
    Ladder(RUNGS, seed).draw(model, batch_of([9, 5], seed=words), step)
    return retention_of(model)


def test_every_rung_is_drawn_and_seed_step_and_words_alone_decide():
    model = powerbert.apply(tiny("bert"), RUNGS[0]).train()
    found = [drawn(model, step, words=step) for step in range(60)]
    assert min(Counter(found).values()) > 8
    assert set(found) == set(RUNGS)
    assert found == [drawn(model, step, words=step) for step in range(60)]
    assert found != [drawn(model, step, seed=1, words=step) for step in range(60)]


def test_the_middle_rung_is_evaluated():
    model = powerbert.apply(tiny("bert"), RUNGS[0]).eval()
    assert {drawn(model, step) for step in range(5)} == {RUNGS[1]}


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ladder")
    return finetune(pretrained(folder / "encoder"), small_data(), folder / "one", Options(**FAST)).folder


def test_the_folder_of_a_ladder_serves_each_of_its_budgets(one, tmp_path):
    result = retrain(one, small_data(), tmp_path / "any", RetrainOptions(**FAST), retention=RUNGS[1], ladder=RUNGS)
    assert result.retention == RUNGS[1]
    model, tokenizer = powerbert.load(result.folder)
    for each in RUNGS:
        name = f"{1 / work(each.fractions):.3g}x"
        (answer,) = powerbert.pipeline(result.folder, budget=name)("a good film and a dull plot", top_k=None)[:1]
        batch = tokenizer("a good film and a dull plot", return_tensors="pt")
        with torch.no_grad():
            expected = powerbert.apply(model, each)(**batch).logits.softmax(-1).max()
        assert answer["score"] == pytest.approx(float(expected), abs=1e-5)


def test_the_first_encoders_read_all_and_the_others_are_left_out():
    assert first_encoders(4, 3).counts(10) == (10, 10, 10, 0)


def test_anytime_reports_the_original_and_what_each_budget_of_the_dial_answers(one, tmp_path, caplog):
    data = small_data()
    budgets = (0.5, 0.9, 0.1)  # the last cannot be spent
    with caplog.at_level("WARNING", "powerbert.training"):
        result, table = anytime(one, data, tmp_path / "any", AnytimeOptions(**FAST), budgets=budgets)
    assert "left out [0.1]" in caplog.text
    assert [row["name"] for row in table] == ["original", "1.33x", "2x"]
    for row in table:
        network, tokenizer = powerbert.load(one if row["name"] == "original" else result.folder)
        if row["name"] != "original":
            powerbert.apply(network, RetentionConfiguration.parse(row["retention"]))
        expected = evaluate(network, encode_data(data, network, tokenizer).splits["dev"], data.task, tokenizer)
        assert row["value"] == expected.value
        assert row["work"] == expected.work


def test_budgets_of_which_none_can_be_spent_are_refused_before_the_training(one, tmp_path):
    with pytest.raises(PowerBertError, match="no budget can be spent"):
        anytime(one, small_data(), tmp_path / "any", budgets=(0.1,))
    assert not list(tmp_path.iterdir())


@given(st.integers(2, 24))
def test_the_rungs_of_a_ladder_spend_their_budgets_in_the_same_encoders(encoders):
    for depth in depths_of(encoders):
        rungs = all_rungs(encoders, depth)
        assert rungs
        assert {each.depth for each in rungs} == {depth}
        assert {len(each) for each in rungs} == {encoders}
        most = depth / encoders
        spent = [budget for budget in BUDGETS if least_budget(encoders, depth) < budget < most]
        spent = [most, *spent] if most <= BUDGETS[0] else spent
        assert [work(each.fractions) for each in rungs] == pytest.approx(spent, abs=1e-3)


def test_a_goal_is_tried_with_half_of_the_encoders_first_and_then_with_three_of_four():
    assert depths_of(12) == [6, 9]
    assert depths_of(6) == [4, 5]
    assert depths_of(4) == [3]
    assert depths_of(2) == [2]


@given(st.integers(2, 24), st.integers(0, 22))
def test_words_go_at_two_encoders_at_most_in_all_rungs_of_a_ladder(encoders, depth):
    depth = 1 + depth % encoders
    falls = [
        {j for j in range(1, depth) if each.fractions[j] < each.fractions[j - 1]} for each in all_rungs(encoders, depth)
    ]
    assert len(set().union(*falls)) <= 2


def test_the_least_budget_can_be_spent_and_the_most_is_all_words_of_the_encoders_that_run():
    for encoders in range(2, 25):
        assert work(rung(encoders, least_budget(encoders)).fractions) <= least_budget(encoders) + 1e-3
        assert set(rung(encoders, 1.0).fractions) <= {0.0, 1.0}
