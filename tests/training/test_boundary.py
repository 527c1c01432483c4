"""One boundary per encoder: its limit is extract, its gates by hand, and a search that ends at its budget.

Oracles: `apply` with the same shares; loops over words; an uninterrupted run.
"""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import FAMILIES, batch_of, tiny
from runs import pretrained, small_data
from safetensors.torch import load_file

import powerbert
from powerbert.errors import PowerBertError
from powerbert.modeling.apply import apply, retention_of
from powerbert.retention import RetentionConfiguration
from powerbert.training import Options, SearchOptions, finetune
from powerbert.training.boundary import COLD, HOT, Boundary, search_boundary
from powerbert.training.retention_parameters import NAME, RetentionAdamW
from powerbert.training.trainer import StepTrainer

LENGTHS = [20, 9, 13, 2, 1]


@torch.no_grad()
def logits(model, batch):
    return model(**batch).logits


def bounded(model, shares, temperature=0.0):
    """The boundaries of a model, set to these shares."""
    boundary = Boundary(model, steps=10)
    boundary.temperature = temperature
    with torch.no_grad():
        boundary.parameter.copy_(torch.tensor(shares)[:, None])
    return boundary


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shares", [(0.9, 0.6, 0.4, 0.1), (0.5, 0.5, 0.5, 0.5), (1.0, 0.25, 0.01, 0.01)], ids=str)
def test_in_the_limit_the_searched_model_is_the_extracted_one(family, shares):
    """Also where f * n is whole, where shares stay, and in a batch with PAD."""
    model, other = tiny(family), apply(tiny(family), RetentionConfiguration.relative(shares))
    batch = batch_of(LENGTHS, pad=model.config.pad_token_id or 0)
    full = logits(model, batch)
    boundary = bounded(model, shares)
    assert boundary.to_configuration() == retention_of(other)
    expected = logits(other, batch)
    torch.testing.assert_close(logits(model, batch), expected, atol=1e-4, rtol=0)
    assert (full - expected).abs().max() > 1e-3  # and not because nothing happens
    boundary.temperature = 1e-5
    torch.testing.assert_close(logits(model, batch), expected, atol=1e-4, rtol=0)
    boundary.temperature = HOT
    assert (logits(model, batch) - expected).abs().max() > 1e-3


@settings(max_examples=25)
@given(
    st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4).map(lambda shares: sorted(shares, reverse=True)),
    st.lists(st.integers(1, 30), min_size=1, max_size=3),
)
def test_in_the_limit_it_is_extract_for_any_shares_and_lengths(shares, lengths):
    model, batch = tiny("bert"), batch_of(lengths)
    boundary = bounded(model, shares)
    searched, retention = logits(model, batch), boundary.to_configuration()
    torch.testing.assert_close(searched, logits(apply(tiny("bert"), retention), batch), atol=1e-4, rtol=0)


def test_it_starts_as_the_full_model_whatever_the_temperature():
    model, batch = tiny("bert"), batch_of(LENGTHS)
    full = logits(model, batch)
    boundary = Boundary(model, steps=10)
    assert boundary.temperature == HOT
    torch.testing.assert_close(logits(model, batch), full, atol=1e-5, rtol=0)
    boundary.detach()
    assert NAME not in dict(model.named_parameters())
    assert torch.equal(logits(model, batch), full)


@given(st.floats(0.02, 0.98), st.integers(2, 40), st.floats(0.0, HOT))
def test_a_gate_is_a_sigmoid_around_the_last_rank_that_is_retained(share, length, temperature):
    boundary = bounded(tiny("bert"), (1.0, share, 0.01, 0.01), temperature)
    share = boundary.to_configuration().fractions[1]
    found = boundary.log_gates(2, torch.arange(length)[None], torch.tensor([length]))[0].exp().tolist()
    retained = max(1, math.ceil(round(share * length, 6)))
    width = temperature * 4 * share * (1 - share) + COLD / length
    assert found[0] == 1.0  # CLS
    for rank in range(1, length):
        away = (retained - 0.5 - rank) / length / width
        assert found[rank] == pytest.approx(1 / (1 + math.exp(min(-away, 700))), abs=2e-3)


def test_shares_never_rise_and_each_hears_its_own_gradient():
    boundary = bounded(tiny("bert"), (0.5, 1.7, 0.7, 0.2))
    assert boundary.shares().tolist() == pytest.approx([0.5, 0.5, 0.5, 0.2])
    (boundary.shares() * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert boundary.parameter.grad[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("family", ["bert", "mpnet", "albert"])
def test_the_task_is_felt_by_every_encoder_whose_words_are_read(family):
    model = tiny(family)
    boundary = bounded(model, (0.9, 0.7, 0.5, 0.3), HOT)
    model(**batch_of([20, 9], pad=model.config.pad_token_id or 0), labels=torch.tensor([0, 1])).loss.backward()
    grad = boundary.parameter.grad[:, 0]
    assert (grad[:3] != 0).all()
    assert grad[3] == 0  # the head reads CLS alone


def test_checkpointed_gradients_are_the_same():
    """Gates go from encoder to encoder with the word-vectors, so the backward pass can compute them again."""
    grads = []
    for checkpointed in (False, True):
        model = tiny("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        boundary = bounded(model, (0.9, 0.7, 0.5, 0.3), HOT)
        if checkpointed:
            model.gradient_checkpointing_enable()
        model.train()(**batch_of([20, 9]), labels=torch.tensor([0, 1])).loss.backward()
        grads.append(boundary.parameter.grad)
    torch.testing.assert_close(*grads)


def test_the_budget_presses_on_all_encoders_alike():
    boundary = Boundary(tiny("bert"), steps=4)
    optimiser = RetentionAdamW([boundary.optimiser_group(0.5, 0.0, 0.6, steps=4)])
    for _ in range(4):
        boundary.parameter.grad = torch.zeros_like(boundary.parameter)
        optimiser.step()
    assert boundary.to_configuration().fractions == pytest.approx([0.6] * 4, abs=1e-3)


def test_the_temperature_falls_to_nothing():
    boundary = Boundary(tiny("bert"), steps=10)
    found = []
    for step in range(12):
        boundary.cool(None, {}, step)
        found.append(boundary.temperature)
    assert found == sorted(found, reverse=True)
    assert (found[0], found[10], found[11]) == (HOT, 0.0, 0.0)


# ---- the step ----------------------------------------------------------------------------

FAST = SearchOptions(epochs=2, batch_size=8, accumulation=1, evaluations=3, seed=3)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boundary")
    options = Options(epochs=1, batch_size=8, accumulation=1)
    return finetune(pretrained(folder / "encoder"), small_data(), folder / "one", options).folder


def test_one_search_ends_at_the_budget_and_resumes_bit_for_bit(one, tmp_path, monkeypatch):
    result = search_boundary(one, small_data(), tmp_path / "two", FAST, budget=0.5)
    shares = result.retention.fractions
    assert sum(shares) / 4 == pytest.approx(0.5, abs=2e-3)
    assert retention_of(powerbert.load(tmp_path / "two")[0]) == result.retention
    learned = json.loads((tmp_path / "two" / "retention_parameters.json").read_text())
    assert len(learned) == 4
    assert all(len(row) == 1 for row in learned)
    assert NAME not in load_file(tmp_path / "two" / "model.safetensors")
    assert search_boundary(one, small_data(), tmp_path / "two", FAST, budget=0.5).skipped
    with pytest.raises(PowerBertError, match="another run"):
        search_boundary(one, small_data(), tmp_path / "two", FAST, budget=0.4)

    save = StepTrainer._save_checkpoint

    def killed(self, model, trial):
        save(self, model, trial)
        raise KeyboardInterrupt

    monkeypatch.setattr(StepTrainer, "_save_checkpoint", killed)
    with pytest.raises(KeyboardInterrupt):
        search_boundary(one, small_data(), tmp_path / "again", FAST, budget=0.5)
    monkeypatch.undo()
    assert search_boundary(one, small_data(), tmp_path / "again", FAST, budget=0.5).retention == result.retention
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("two", "again")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_budget_that_is_no_share_is_refused(one, tmp_path):
    with pytest.raises(PowerBertError, match="--budget is out of range"):
        search_boundary(one, small_data(), tmp_path / "two", budget=1.5)
