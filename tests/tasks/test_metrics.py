"""Metrics against hand-made values, scikit-learn and scipy; the bootstrap against a plain loop."""

from __future__ import annotations

import math
import time

import numpy
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import DataError
from powerbert.tasks import metrics
from powerbert.tasks.metrics import FORMULAS, bootstrap_interval, metric

classes = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40)
reals = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=40)


def both(pairs):
    return [a for a, _ in pairs], [b for _, b in pairs]


def test_known_values():
    predictions, labels = [1, 1, 0, 0, 1], [1, 0, 0, 0, 1]
    assert metric("accuracy")(predictions, labels) == pytest.approx(0.8)
    assert metric("f1")(predictions, labels) == pytest.approx(0.8)
    assert metric("matthews")(predictions, labels) == pytest.approx(2 / 3)
    assert metric("spearman")([0.1, 0.2, 0.9], [1.0, 2.0, 3.0]) == pytest.approx(1)
    assert metric("spearman")([3, 2, 1], [1, 2, 3]) == pytest.approx(-1)


@pytest.mark.parametrize("name", FORMULAS)
def test_constants_give_a_number(name):
    for predictions, labels in [([1, 1, 1], [0, 1, 0]), ([0, 0], [0, 0]), ([0.0], [1.0]), ([2, 2], [0, 1])]:
        value = metric(name)(predictions, labels)
        assert math.isfinite(value)
        assert all(math.isfinite(end) for end in bootstrap_interval(name, predictions, labels, seed=0))
    assert metric("spearman")([1, 1, 1], [0, 1, 2]) == 0


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40))
def test_f1_of_two_classes_is_of_class_one_alone(pairs):
    predictions, labels = both(pairs)
    hits = sum(a == b == 1 for a, b in pairs)
    either = sum(a == 1 for a in predictions) + sum(b == 1 for b in labels)
    assert metric("f1")(predictions, labels) == pytest.approx(2 * hits / either if either else 0)


def test_f1_of_three_classes_is_not_that_of_one():
    """Classes 0 and 2 all swapped: class 1 alone would give 1.0."""
    predictions, labels = [0, 1, 2], [2, 1, 0]
    for name in ("f1", "macro_f1"):
        assert metric(name)(predictions, labels) == pytest.approx(1 / 3)
        interval = bootstrap_interval(name, predictions * 100, labels * 100, seed=0)
        assert interval == pytest.approx((1 / 3, 1 / 3))


def oracle(name, predictions, labels):
    """What scikit-learn and scipy say about one sample; their NaN of a constant is our 0."""
    if name == "accuracy":
        return sklearn.metrics.accuracy_score(labels, predictions)
    if name == "macro_f1" or (name == "f1" and {*predictions, *labels} - {0, 1}):
        return sklearn.metrics.f1_score(labels, predictions, average="macro", zero_division=0)
    if name == "f1":
        return sklearn.metrics.f1_score(labels, predictions, labels=[1], average="macro", zero_division=0)
    if len({*predictions}) == 1 or len({*labels}) == 1:
        return 0
    if name == "matthews":
        return sklearn.metrics.matthews_corrcoef(labels, predictions)
    return scipy.stats.spearmanr(predictions, labels).statistic


@given(classes, st.sampled_from([*FORMULAS]))
def test_values_are_those_of_scikit_learn_and_scipy(pairs, name):
    predictions, labels = both(pairs)
    assert metric(name)(predictions, labels) == pytest.approx(oracle(name, predictions, labels), abs=1e-9)


@given(reals, st.sampled_from([*FORMULAS]), st.integers(0, 99))
def test_samples_scored_at_once_score_as_their_rows_do(pairs, name, seed):
    """Draw five samples, score them together, and each alone with scikit-learn or scipy."""
    predictions, labels = (numpy.array(side, dtype=float) for side in both(pairs))
    predicted, truth, values = metrics._coded(predictions, labels)
    draws = numpy.random.default_rng(seed).integers(0, len(pairs), (5, len(pairs)))
    scores = FORMULAS[name](predicted[draws], truth[draws], values)
    assert scores.shape == (5,)
    several = name == "f1" and {*predictions, *labels} - {0, 1}  # of the data, not of a sample
    for draw, score in zip(draws, scores, strict=True):
        said = oracle("macro_f1" if several else name, predictions[draw], labels[draw])
        assert score == pytest.approx(said, abs=1e-9)


@pytest.mark.parametrize("name", FORMULAS)
def test_the_interval_agrees_with_a_plain_bootstrap(name):
    random = numpy.random.default_rng(0)
    labels = random.integers(0, 2, 300) if name != "spearman" else random.normal(size=300)
    flips = random.random(300) < 0.2
    predictions = numpy.where(flips, 1 - labels, labels)
    fast = bootstrap_interval(name, predictions, labels, seed=1)
    draws = numpy.random.default_rng(2).integers(0, 300, (250, 300))
    plain = [metric(name)(predictions[draw], labels[draw]) for draw in draws]
    assert fast == pytest.approx(numpy.quantile(plain, [0.025, 0.975]), abs=0.03)
    assert fast.low < metric(name)(predictions, labels) < fast.high
    assert fast == bootstrap_interval(name, predictions, labels, seed=1)
    wide = bootstrap_interval(name, predictions, labels, seed=1, level=0.99)
    assert wide.low <= fast.low <= fast.high <= wide.high


@given(classes, st.integers(0, 99))
def test_the_interval_lies_within_the_metrics_range(pairs, seed):
    for name in FORMULAS:
        low, high = bootstrap_interval(name, *both(pairs), seed=seed, samples=50)
        assert -1 - 1e-9 <= low <= high <= 1 + 1e-9


@pytest.mark.parametrize("name", FORMULAS)
def test_ten_thousand_rows_take_under_two_seconds(name):
    random = numpy.random.default_rng(0)
    labels = random.normal(size=10_000) if name == "spearman" else random.integers(0, 3, 10_000)
    predictions = random.permutation(labels)
    start = time.process_time()
    bootstrap_interval(name, predictions, labels, seed=0)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(("predictions", "labels"), [([], []), ([1], [1, 2]), ([[1]], [[1]]), ([float("nan")], [1.0])])
def test_what_cannot_be_scored_is_refused(predictions, labels):
    for name in FORMULAS:
        with pytest.raises(DataError):
            metric(name)(predictions, labels)


def test_unknown_metrics_and_intervals():
    with pytest.raises(DataError, match="metrics are accuracy, f1, matthews, spearman"):
        metric("bleu")
    with pytest.raises(DataError, match="metrics are"):
        bootstrap_interval("bleu", [1], [1], seed=0)
    with pytest.raises(DataError, match="no such interval"):
        bootstrap_interval("f1", [1], [1], seed=0, level=95)


def test_a_thousand_classes_take_no_longer():
    random = numpy.random.default_rng(0)
    labels, predictions = random.integers(0, 1000, (2, 10_000))
    start = time.process_time()
    bootstrap_interval("macro_f1", predictions, labels, seed=0)
    assert time.process_time() - start < 2


def test_one_row_has_no_spread():
    assert bootstrap_interval("accuracy", [1], [1], seed=0) == (1, 1)
