"""Lengths. Oracle: figures worked out by hand."""

from __future__ import annotations

import pytest
from models import tiny
from studied import subject_of

from powerbert.studies.lengths import length_figures, study_lengths

HUNDRED = [10] * 97 + [60, 70, 200]


def test_the_rule_and_what_pad_costs_by_hand():
    """One in a hundred may be longer than N', which is 70; the nearest of 64, 128, 256, 512 is 64."""
    figures = length_figures(HUNDRED, limit=512, paper=None)
    assert (figures["covering"], figures["n"], figures["paper_n"]) == (70, 64, None)
    assert figures["mean"] == 13.0
    assert figures["percentiles"] == {"50": 10, "90": 10, "99": 70}
    assert (figures["shortest"], figures["longest"]) == (10, 200)
    assert figures["longer"] == 0.02
    assert figures["close"] == 0.03  # 48 and more
    # What is read of them: 97 * 10 + 60 + 64 + 64.
    assert figures["without_pad"] == pytest.approx(64 / 11.58)
    assert sum(figures["counts"]) == 100
    assert figures["counts"][10] == 97


def test_the_papers_own_n_is_what_the_gain_is_told_of():
    figures = length_figures(HUNDRED, limit=512, paper=128)
    assert (figures["n"], figures["paper_n"]) == (64, 128)
    assert figures["without_pad"] == pytest.approx(128 / (13 - 0.72))


def test_n_is_never_longer_than_the_model_reads():
    assert length_figures([400] * 10, limit=128, paper=None)["n"] == 128


def test_the_study_counts_the_word_vectors_of_each_input():
    texts = ["good"] * 20 + ["the film is good but the plot is dull"]  # 3 word-vectors, and 11
    outcome = study_lengths(subject_of(tiny("bert", "Model"), texts, [0] * 21))
    figures = outcome.figures
    assert (figures["shortest"], figures["longest"]) == (3, 11)
    assert figures["mean"] == pytest.approx((20 * 3 + 11) / 21)
    assert figures["n"] == 40  # the model reads no more
    assert outcome.agrees
    assert "0.0 % of the inputs have 30 word-vectors or more" in outcome.finding


def test_a_set_of_long_inputs_disagrees_with_the_paper():
    outcome = study_lengths(subject_of(tiny("bert"), [" ".join(["good"] * 60)] * 3, [0] * 3))
    assert outcome.figures["close"] == 1.0
    assert not outcome.agrees
