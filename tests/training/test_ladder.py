"""One re-training for many configurations; oracles: what each batch was given, and the folder's own dial."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from models import batch_of, tiny
from runs import pretrained, small_data

import powerbert
from powerbert.modeling.apply import retention_of
from powerbert.retention import RetentionConfiguration
from powerbert.training import Options, RetrainOptions, finetune, retrain
from powerbert.training.ladder import Ladder
from powerbert.training.shapes import first_encoders, work

SHARES = (1, 0.8, 0.6, 0.4), (1, 0.5, 0.3, 0.2), (1, 0.4, 0.2, 0)
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


def test_the_folder_of_a_ladder_serves_each_of_its_budgets(tmp_path):
    data, fast = small_data(), {"epochs": 1, "batch_size": 16}
    one = finetune(pretrained(tmp_path / "encoder"), data, tmp_path / "one", Options(**fast)).folder
    result = retrain(one, data, tmp_path / "any", RetrainOptions(**fast), retention=RUNGS[1], ladder=RUNGS)
    assert result.retention == RUNGS[1]
    model, tokenizer = powerbert.load(result.folder)
    for rung in RUNGS:
        name = f"{1 / work(rung.fractions):.3g}x"
        (answer,) = powerbert.pipeline(result.folder, budget=name)("a good film and a dull plot", top_k=None)[:1]
        batch = tokenizer("a good film and a dull plot", return_tensors="pt")
        with torch.no_grad():
            expected = powerbert.apply(model, rung)(**batch).logits.softmax(-1).max()
        assert answer["score"] == pytest.approx(float(expected), abs=1e-5)


def test_the_first_encoders_read_all_and_the_others_are_left_out():
    assert first_encoders(4, 3).counts(10) == (10, 10, 10, 0)
