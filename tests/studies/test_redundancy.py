"""Cosine similarity. Oracle: every pair of word-vectors of every input alone, in plain loops."""

from __future__ import annotations

import pytest
import reference
import torch
from models import tiny
from studied import sentences, subject_of, word_pieces

from powerbert.studies.redundancy import pair_similarity, study_redundancy

TEXTS = sentences(7)


@torch.no_grad()
def by_loops(subject):
    """Mean over inputs of the mean over pairs, for the embeddings and each encoder."""
    found = []
    for row in range(len(subject.rows)):
        states = subject.model.base_model(word_pieces(subject, row)[None], output_hidden_states=True).hidden_states
        found.append([reference.pairwise_cosine(each[0]) for each in states])
    return [sum(column) / len(column) for column in zip(*found, strict=True)]


@pytest.mark.parametrize(("family", "head"), [("bert", "ForSequenceClassification"), ("modernbert", "Model")])
def test_it_is_the_mean_of_all_pairs_of_each_input(family, head):
    subject = subject_of(tiny(family, head), TEXTS)
    outcome = study_redundancy(subject)
    embeddings, *expected = by_loops(subject)
    assert outcome.figures["similarity"] == pytest.approx(expected, abs=1e-5)
    assert outcome.figures["embeddings"] == pytest.approx(embeddings, abs=1e-5)
    assert outcome.figures["inputs"] == 7


def test_pad_has_no_part_in_it():
    states = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    real = torch.tensor([[True, True, True, False, False], [True] * 5])
    expected = [reference.pairwise_cosine(states[0, :3]), reference.pairwise_cosine(states[1])]
    assert pair_similarity(states, real).tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("values", "agrees"), [([0.1, 0.2, 0.3, 0.4], True), ([0.4, 0.3, 0.2, 0.1], False), ([0.1, 0.4, 0.3, 0.05], False)]
)
def test_the_finding_follows_the_figures(monkeypatch, values, agrees):
    import numpy

    measured = "powerbert.studies.redundancy.measured_similarities"
    monkeypatch.setattr(measured, lambda subject: numpy.array([[0.0, *values]] * 2))
    outcome = study_redundancy(None)
    assert outcome.agrees == agrees
    assert outcome.finding.startswith("agrees" if agrees else "disagrees")
    assert f"{values[-1]:.2f} at encoder 4" in outcome.finding
