"""Metrics against hand-made values and naive definitions; the bootstrap against a plain loop."""

from __future__ import annotations

import math
import time

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import DataError
from powerbert.tasks import metrics
from powerbert.tasks.metrics import METRICS, bootstrap_interval, metric

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


@pytest.mark.parametrize("name", METRICS)
def test_constants_give_a_number(name):
    for predictions, labels in [([1, 1, 1], [0, 1, 0]), ([0, 0], [0, 0]), ([0.0], [1.0]), ([2, 2], [0, 1])]:
        value = metric(name)(predictions, labels)
        assert math.isfinite(value)
        assert all(math.isfinite(end) for end in bootstrap_interval(name, predictions, labels, seed=0))
    assert metric("spearman")([1, 1, 1], [0, 1, 2]) == 0


@given(classes)
def test_f1_is_of_class_one_alone(pairs):
    predictions, labels = both(pairs)
    hits = sum(a == b == 1 for a, b in pairs)
    either = sum(a == 1 for a in predictions) + sum(b == 1 for b in labels)
    assert metric("f1")(predictions, labels) == pytest.approx(2 * hits / either if either else 0)


@given(classes, st.sampled_from(["accuracy", "f1", "matthews"]), st.integers(0, 99))
def test_a_resampled_confusion_matrix_scores_as_its_rows_do(pairs, name, seed):
    """Expand each drawn matrix into rows again and score those with scikit-learn."""
    drawn = []

    class Recording:
        def __init__(self):
            self.random = numpy.random.default_rng(seed)

        def multinomial(self, *args, **options):
            drawn.append(self.random.multinomial(*args, **options))
            return drawn[-1]

    predictions, labels = (numpy.array(side, dtype=float) for side in both(pairs))
    scores = metrics._confusion_scores(name, predictions, labels, Recording(), 5)
    cells = numpy.unique(numpy.stack([labels, predictions], 1), axis=0)
    for counts, score in zip(drawn[0], scores, strict=True):
        truth, predicted = numpy.repeat(cells, counts, axis=0).T
        assert score == pytest.approx(metric(name)(predicted, truth), abs=1e-9)


@given(reals, st.integers(0, 99))
def test_resampled_ranks_correlate_as_scipy_says(pairs, seed):
    predictions, labels = (numpy.array(side, dtype=float) for side in both(pairs))
    scores = metrics._spearman_scores(predictions, labels, numpy.random.default_rng(seed), 5)
    random = numpy.random.default_rng(seed)
    for score in scores:
        draw = random.integers(0, len(labels), len(labels))
        assert score == pytest.approx(metric("spearman")(predictions[draw], labels[draw]), abs=1e-9)


@pytest.mark.parametrize("name", METRICS)
def test_the_interval_agrees_with_a_plain_bootstrap(name):
    random = numpy.random.default_rng(0)
    labels = random.integers(0, 2, 300) if name != "spearman" else random.normal(size=300)
    flips = random.random(300) < 0.2
    predictions = numpy.where(flips, 1 - labels, labels)
    fast = bootstrap_interval(name, predictions, labels, seed=1)
    plain = bootstrap_interval(lambda a, b: metric(name)(a, b), predictions, labels, seed=2, samples=250)
    assert fast == pytest.approx(plain, abs=0.03)
    assert fast.low < metric(name)(predictions, labels) < fast.high
    assert fast == bootstrap_interval(metric(name), predictions, labels, seed=1)
    wide = bootstrap_interval(name, predictions, labels, seed=1, level=0.99)
    assert wide.low <= fast.low <= fast.high <= wide.high


@given(classes, st.integers(0, 99))
def test_the_interval_lies_within_the_metrics_range(pairs, seed):
    for name in METRICS:
        low, high = bootstrap_interval(name, *both(pairs), seed=seed, samples=50)
        assert -1 - 1e-9 <= low <= high <= 1 + 1e-9


@pytest.mark.parametrize("name", METRICS)
def test_ten_thousand_rows_take_under_two_seconds(name):
    random = numpy.random.default_rng(0)
    labels = random.normal(size=10_000) if name == "spearman" else random.integers(0, 3, 10_000)
    predictions = random.permutation(labels)
    start = time.process_time()
    bootstrap_interval(name, predictions, labels, seed=0)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("predictions", "labels"), [([], []), ([1], [1, 2]), ([[1]], [[1]]), ([float("nan")], [1.0])]
)
def test_what_cannot_be_scored_is_refused(predictions, labels):
    for name in METRICS:
        with pytest.raises(DataError):
            metric(name)(predictions, labels)


def test_unknown_metrics_and_intervals():
    with pytest.raises(DataError, match="metrics are accuracy, f1, matthews, spearman"):
        metric("bleu")
    with pytest.raises(DataError, match="metrics are"):
        bootstrap_interval("bleu", [1], [1], seed=0)
    with pytest.raises(DataError, match="no such interval"):
        bootstrap_interval("f1", [1], [1], seed=0, level=95)
