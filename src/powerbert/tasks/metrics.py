"""The paper's four metrics, as raw values, and their bootstrap intervals.

Paper: Hyper-parameters and Evaluation
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy
from numpy.typing import NDArray

from powerbert.errors import DataError

Values: TypeAlias = Sequence[float] | NDArray[Any]
Metric: TypeAlias = Callable[[Values, Values], float]
Floats: TypeAlias = NDArray[numpy.float64]


class Interval(NamedTuple):
    """A confidence interval, in the units of the metric."""

    low: float
    high: float


def accuracy(predictions: Values, labels: Values) -> float:
    """Share of predictions that are right: 0..1."""
    # scikit-learn takes a second to import, so it is imported where it is used.
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(*_aligned(labels, predictions)))


def f1(predictions: Values, labels: Values) -> float:
    """F1 of class 1: 0..1, and 0 where class 1 is neither predicted nor present."""
    from sklearn.metrics import f1_score

    truth, predicted = _aligned(labels, predictions)
    return float(f1_score(truth, predicted, labels=[1], average="macro", zero_division=0))


def matthews(predictions: Values, labels: Values) -> float:
    """Matthews correlation: -1..1, and 0 where either side has one class only."""
    from sklearn.metrics import matthews_corrcoef

    truth, predicted = _aligned(labels, predictions)
    if numpy.ptp(truth) == 0 or numpy.ptp(predicted) == 0:
        return 0.0  # scikit-learn's answer too, but with a warning
    return float(matthews_corrcoef(truth, predicted))


def spearman(predictions: Values, labels: Values) -> float:
    """Spearman rank correlation: -1..1, and 0 where either side is constant."""
    from scipy.stats import spearmanr

    truth, predicted = _aligned(labels, predictions)
    if len(truth) < 2 or numpy.ptp(truth) == 0 or numpy.ptp(predicted) == 0:
        return 0.0  # a constant ranks nothing; scipy would answer NaN
    return float(spearmanr(predicted, truth).statistic)


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "spearman": spearman,
}


def metric(name: str) -> Metric:
    """Return the metric of that name: a function (predictions, labels) -> raw value."""
    if name not in METRICS:
        raise DataError("unknown metric", got=name, rule=f"metrics are {', '.join(METRICS)}")
    return METRICS[name]


def bootstrap_interval(
    measure: str | Metric,
    predictions: Values,
    labels: Values,
    seed: int,
    samples: int = 1000,
    level: float = 0.95,
) -> Interval:
    """Percentile bootstrap over rows: draw as many rows with replacement, score, take the middle `level`.

    The named metrics are exact but never loop over rows in Python: a sample of a classification is one
    multinomial draw over the cells of its confusion matrix, a sample of ranks is a cumulative count.
    Any other function is called once per sample.
    """
    if samples < 1 or not 0 < level < 1:
        raise DataError(
            "no such interval", got=(samples, level), rule="samples is at least 1 and level between 0 and 1"
        )
    truth, predicted = _aligned(labels, predictions)
    name = (
        measure
        if isinstance(measure, str)
        else next((name for name, known in METRICS.items() if known is measure), "")
    )
    random = numpy.random.default_rng(seed)
    if name in ("accuracy", "f1", "matthews"):
        scores = _confusion_scores(name, predicted, truth, random, samples)
    elif name == "spearman":
        scores = _spearman_scores(predicted, truth, random, samples)
    else:
        score = metric(measure) if isinstance(measure, str) else measure
        rows = len(truth)
        draws = (random.integers(0, rows, rows) for _ in range(samples))
        scores = numpy.array([score(predicted[draw], truth[draw]) for draw in draws])
    low, high = numpy.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def _confusion_scores(
    name: str, predicted: Floats, truth: Floats, random: numpy.random.Generator, samples: int
) -> Floats:
    """Score `samples` resamples of the occupied cells of the confusion matrix: (samples,)."""
    cells, count = numpy.unique(numpy.stack([truth, predicted], 1), axis=0, return_counts=True)
    rows = len(truth)
    drawn = random.multinomial(rows, count / rows, size=samples).astype(numpy.float64)  # (samples, cells)
    right: Floats = drawn[:, cells[:, 0] == cells[:, 1]].sum(1)
    if name == "accuracy":
        return right / rows
    if name == "f1":
        true_one, predicted_one = (drawn[:, cells[:, side] == 1].sum(1) for side in (0, 1))
        both = drawn[:, (cells == 1).all(1)].sum(1)
        return _ratio(2 * both, true_one + predicted_one)
    classes = numpy.unique(cells)
    true, said = (drawn @ (cells[:, side, None] == classes) for side in (0, 1))  # (samples, classes)
    spread = (rows**2 - (true**2).sum(1)) * (rows**2 - (said**2).sum(1))
    return _ratio(right * rows - (true * said).sum(1), numpy.sqrt(spread))


def _spearman_scores(
    predicted: Floats, truth: Floats, random: numpy.random.Generator, samples: int
) -> Floats:
    """Score `samples` resamples of the rows by the correlation of their mid-ranks: (samples,)."""
    sides = [numpy.unique(side, return_inverse=True)[1] for side in (predicted, truth)]
    rows, scores = len(truth), numpy.zeros(samples)
    for sample in range(samples):
        draw = random.integers(0, rows, rows)
        ranks = []
        for side in sides:
            drawn = side[draw]
            count = numpy.bincount(drawn)
            ranks.append((numpy.cumsum(count) - (count - 1) / 2)[drawn])  # mid-rank of each value drawn
        first, second = (rank - (rows + 1) / 2 for rank in ranks)
        spread = (first @ first) * (second @ second)
        scores[sample] = first @ second / numpy.sqrt(spread) if spread > 0 else 0.0
    return scores


def _ratio(above: Floats, below: Floats) -> Floats:
    """Divide, with 0 where nothing is below."""
    return numpy.divide(above, below, out=numpy.zeros_like(above), where=below > 0)


def _aligned(labels: Values, predictions: Values) -> tuple[Floats, Floats]:
    """Both sides as finite, equally long vectors, labels first as scikit-learn wants them."""
    truth, predicted = (numpy.asarray(side, dtype=numpy.float64) for side in (labels, predictions))
    if truth.ndim != 1 or truth.shape != predicted.shape or not len(truth):
        raise DataError(
            "predictions and labels do not match",
            got=f"shapes {predicted.shape} and {truth.shape}",
            rule="one prediction per label, and at least one",
        )
    if not (numpy.isfinite(truth).all() and numpy.isfinite(predicted).all()):
        raise DataError("predictions or labels are not finite", remedy="check the model's outputs for NaN")
    return truth, predicted
