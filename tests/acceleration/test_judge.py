"""Two models on the same rows; oracle: scikit-learn's metrics and a plain bootstrap loop."""

from __future__ import annotations

import numpy
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, f1_score

from powerbert.acceleration.goal import Goal
from powerbert.acceleration.judge import HARDLY, compare, guess, pronounce

LABELS = numpy.random.default_rng(0).integers(2, size=300)
BEFORE = numpy.where(numpy.random.default_rng(1).random(300) < 0.1, 1 - LABELS, LABELS)
AFTER = numpy.where(numpy.random.default_rng(2).random(300) < 0.05, 1 - BEFORE, BEFORE)


def test_the_loss_is_in_points_of_the_tasks_metric():
    found = compare("f1", BEFORE, AFTER, LABELS)
    assert found.before == pytest.approx(f1_score(LABELS, BEFORE))
    assert found.loss == pytest.approx(100 * (f1_score(LABELS, BEFORE) - f1_score(LABELS, AFTER)))
    assert found.agreement == pytest.approx((BEFORE == AFTER).mean())
    assert found.rows == 300
    assert found.interval.low < found.loss < found.interval.high


def test_the_interval_is_that_of_rows_drawn_in_pairs():
    found = compare("accuracy", BEFORE, AFTER, LABELS)
    draw, differences = numpy.random.default_rng(7), []
    for _ in range(2000):
        rows = draw.integers(300, size=300)
        pair = [accuracy_score(LABELS[rows], side[rows]) for side in (BEFORE, AFTER)]
        differences.append(100 * (pair[0] - pair[1]))
    assert found.interval.low == pytest.approx(numpy.quantile(differences, 0.025), abs=0.4)
    assert found.interval.high == pytest.approx(numpy.quantile(differences, 0.975), abs=0.4)


def test_the_same_answers_lose_nothing_for_certain():
    found = compare("matthews", BEFORE, BEFORE, LABELS)
    assert (found.loss, found.agreement, found.p_value, [*found.interval]) == (0.0, 1.0, 1.0, [0.0, 0.0])


def test_a_clear_loss_is_not_by_chance():
    assert compare("accuracy", LABELS, AFTER, LABELS).p_value < 0.01


def test_a_goal_counts_points_or_other_answers():
    found = compare("accuracy", BEFORE, AFTER, LABELS)
    assert found.spent(Goal("max-loss", 1.0)) == found.loss
    assert found.spent(Goal("max-disagreement", 1.0)) == pytest.approx(100 * (BEFORE != AFTER).mean())


def test_numbers_agree_by_their_ranks():
    values = numpy.linspace(0, 1, 50)
    assert compare("spearman", values, values**3, values).agreement == pytest.approx(1.0)


def test_a_guess_is_the_best_single_answer():
    labels = numpy.array([0, 0, 0, 1, 2, 2])
    dummy = DummyClassifier(strategy="most_frequent").fit(labels, labels)
    assert guess("accuracy", labels) == pytest.approx(accuracy_score(labels, dummy.predict(labels)))
    assert guess("f1", LABELS) == pytest.approx(f1_score(LABELS, numpy.ones_like(LABELS)))  # not the commonest answer
    assert guess("matthews", LABELS) == guess("spearman", numpy.linspace(0, 1, 9)) == 0.0


def test_a_verdict_says_if_the_original_model_had_learned_nothing():
    goal, chance = Goal("max-loss", 1.0), numpy.random.default_rng(3).integers(2, size=300)
    said = [pronounce(goal, compare("accuracy", before, AFTER, LABELS), 2.0, 5.0) for before in (chance, BEFORE)]
    hardly = HARDLY[1:]  # it begins a sentence
    assert hardly in said[0]["text"]
    assert hardly not in said[1]["text"]
