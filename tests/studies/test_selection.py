"""Strategies of selection. Oracle: `evaluate` of each re-trained folder, and scores worked out by hand."""

from __future__ import annotations

import logging

import numpy
import pytest
from runs import pretrained, small_data
from sklearn.metrics import accuracy_score

import powerbert
from powerbert import RetentionConfiguration
from powerbert.errors import DataError, UnsupportedModelError
from powerbert.modeling.apply import elimination_of
from powerbert.studies.selection import papers_quarter, score_strategies, study_selection
from powerbert.studies.study import Subject
from powerbert.training import Options, RetrainOptions, finetune
from powerbert.training.data import encode_data, evaluate

RETENTION = RetentionConfiguration.relative((0.9, 0.5, 0.3, 0.3))
OPTIONS = RetrainOptions(epochs=1, batch_size=8, accumulation=1, seed=3)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("selection")
    options = Options(epochs=1, batch_size=8, accumulation=1)
    finetune(pretrained(folder / "pretrained"), small_data(), folder / "one", options)
    return folder


def subject_in(home, output="studies", **more):
    data, (model, tokenizer) = small_data(), powerbert.load(home / "one")
    return Subject(home / "one", model, tokenizer, data.task, data.splits["dev"], 40, home / output, seed=3, **more)


@pytest.fixture(scope="module")
def outcome(home):
    return study_selection(subject_in(home), small_data(), RETENTION, 8, OPTIONS)


def test_each_strategy_is_retrained_alike_and_scored_on_all_and_on_long_inputs(home, outcome):
    figures = outcome.figures
    for name, title in (("attn-ws", "Attn-WS"), ("head-ws", "Head-WS"), ("rand-ws", "Rand-WS")):
        model, tokenizer = powerbert.load(home / "studies" / "selection" / name)
        assert elimination_of(model).strategy == name
        assert elimination_of(model).retention == RETENTION
        encoded = encode_data(small_data(), model, tokenizer)
        rows = encoded.splits["dev"]
        long = rows.filter(lambda length: length > 8, input_columns="length", keep_in_memory=True)
        for part, own in (("all", rows), ("long", long)):
            assert figures["inputs"][part] == len(own)
            expected = evaluate(model, own, encoded.task, tokenizer)
            assert figures["scores"][part][title]["value"] == pytest.approx(100 * expected.value)
    assert 0 < figures["inputs"]["long"] < figures["inputs"]["all"]
    leads = figures["leads"]
    assert outcome.agrees == (leads["all"] > 0 and leads["long"] > leads["all"])


def test_rand_ws_draws_with_the_seed(home, outcome):
    model, _ = powerbert.load(home / "studies" / "selection" / "rand-ws")
    assert elimination_of(model).scoring.seed == 3


def test_a_second_run_trains_nothing(home, outcome, caplog):
    with caplog.at_level(logging.INFO, "powerbert.training"):
        again = study_selection(subject_in(home), small_data(), RETENTION, 8, OPTIONS)
    assert sum("is already complete" in record.getMessage() for record in caplog.records) == 3
    assert again.figures == outcome.figures


def test_what_cannot_be_compared_is_refused_before_any_training(home):
    with pytest.raises(UnsupportedModelError, match="already eliminates; the strategies are compared from one"):
        study_selection(subject_in(home, "refused", retention=RETENTION), small_data())
    with pytest.raises(DataError, match="too few long inputs; got '0 of 16 inputs are longer than 39 word-vectors'"):
        study_selection(subject_in(home, "refused"), small_data(), RETENTION, 39, OPTIONS)
    assert not (home / "refused").exists()


def test_the_papers_configuration_for_any_n():
    assert papers_quarter(9, 64).values == (64, 32, 16, 16, 16, 16, 16, 16, 16)
    assert papers_quarter(2, 128).values == (128, 64)


def test_leads_by_hand():
    labels, part = numpy.array([0, 1, 0, 1, 1]), numpy.array([True, True, True, True, False])
    said = {
        "full model": labels,
        "Attn-WS": numpy.array([0, 1, 0, 0, 0]),
        "Head-WS": numpy.array([0, 0, 1, 0, 1]),
        "Rand-WS": numpy.array([0, 1, 1, 0, 1]),
    }
    found = score_strategies(said, labels, part, "accuracy")
    assert {who: one["value"] for who, one in found.items()} == {
        who: 100 * accuracy_score(labels[part], answers[part]) for who, answers in said.items()
    }
    assert (found["Head-WS"]["lead"], found["Rand-WS"]["lead"]) == (50.0, 25.0)
    assert "lead" not in found["Attn-WS"]
    low, high = found["Head-WS"]["lead_interval"]
    assert low <= 50 <= high
