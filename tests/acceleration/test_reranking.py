"""`accelerate` of a CrossEncoder on pairs without labels. Oracles: sentence-transformers, and the ranks themselves."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from rerankers import ACTIVATIONS, cross_encoder, oracle, some_pairs
from scipy.stats import spearmanr

import powerbert
from powerbert.acceleration import cost, engine
from powerbert.cli.main import main
from powerbert.training.options import AccelerateOptions

PAIRS = some_pairs(330, longest=8)


@pytest.fixture(autouse=True)
def _torch_alone(monkeypatch):
    """Tracing takes most of the time; exports of rerankers have tests of their own."""
    monkeypatch.setattr(engine, "installed", lambda: ["torch"])
    monkeypatch.setattr(cost, "fastest", lambda verdicts: None)


@pytest.fixture
def pairs(tmp_path):
    with (tmp_path / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("query", "passage"), *PAIRS])
    return tmp_path / "pairs.csv"


def check(folder, figures, activation):
    """The folder scores as its verdict says, and opens as a CrossEncoder with its own activation."""
    assert figures["verdict"]["metric"] == "spearman"
    assert "rank correlation" in figures["verdict"]["text"]
    opened = powerbert.reranker(folder)
    assert opened.activation == activation
    assert opened.engine.retention is not None
    assert isinstance(oracle(folder).activation_fn, ACTIVATIONS[activation])
    scores = opened.predict(PAIRS)
    assert ((scores > 0) & (scores < 1)).all() == (activation == "sigmoid")
    ranks = opened.rank(PAIRS[0][0], [second for _, second in PAIRS[:5]])
    assert [row["score"] for row in ranks] == sorted((row["score"] for row in ranks), reverse=True)
    return scores


def test_identity_by_the_command_line(tmp_path, pairs):
    folder = cross_encoder(tmp_path, "none")
    given = {"--model": folder, "--texts": pairs, "--text": "query", "--text-pair": "passage"}
    given |= {"--max-disagreement": "99%", "--output": tmp_path / "fast", "--retraining-epochs": 1}
    with pytest.raises(SystemExit) as ended:
        main(["accelerate", *(str(part) for item in given.items() for part in item)])
    assert not ended.value.code
    scores = check(tmp_path / "fast", json.loads((tmp_path / "fast" / "report.json").read_text()), "none")
    assert np.isfinite(spearmanr(scores, oracle(folder).predict(PAIRS)).statistic)


def test_sigmoid_and_a_score_of_transformers_alone_stay_sigmoids(tmp_path, pairs):
    """Training writes a problem_type, by which a one-label score would become the bare logit."""
    cross_encoder(tmp_path, "sigmoid")
    options = AccelerateOptions(retraining_epochs=1, batch_size=32, accumulation=1)
    for name in ("saved", "plain"):
        figures = powerbert.accelerate(
            *(tmp_path / name, tmp_path / f"fast-{name}"),
            texts=pairs,
            text="query",
            text_pair="passage",
            max_disagreement="99%",
            options=options,
        )
        check(tmp_path / f"fast-{name}", figures, "sigmoid")
