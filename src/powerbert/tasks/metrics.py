"""The paper's four metrics, as raw values, and their bootstrap intervals.

Each is one formula over the last axis, so that many resamples are scored at once: scikit-learn and scipy,
the oracle of the tests, score one sample per call and take several times as long (`docs/dependencies.md`).

Paper: Hyper-parameters and Evaluation
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy
from numpy.typing import NDArray
from scipy import stats

from powerbert.errors import DataError

Values: TypeAlias = Sequence[float] | NDArray[Any]
_Floats: TypeAlias = NDArray[numpy.float64]
_Codes: TypeAlias = NDArray[numpy.int64]
"""Both sides by the rank of their value among all values of both: (..., rows)."""

DRAWN = 2**17  # rows that are drawn at once, so that a large split does not take much memory


class Interval(NamedTuple):
    """A confidence interval, in the units of the metric."""

    low: float
    high: float


@dataclass(frozen=True)
class Metric:
    """A function (predictions, labels) -> raw value, and how it scores many samples at once."""

    name: str
    score: Callable[[_Codes, _Codes, _Floats], _Floats]
    """(predictions, labels, values that the codes stand for) -> a score for each sample: (...)."""

    def __call__(self, predictions: Values, labels: Values) -> float:
        """Score all rows."""
        predicted, truth, values = _coded(*_aligned(predictions, labels))
        return float(self.score(predicted, truth, values))

    def at_once(self, values: _Floats, predicted: _Codes, truth: _Codes, axis: int) -> _Floats:
        """Score each sample, as scipy asks for it; the axis is always the last."""
        return self.score(predicted, truth, values)


def metric(name: str) -> Metric:
    """Return the metric of that name."""
    if name not in METRICS:
        raise DataError("unknown metric", got=name, rule=f"metrics are {', '.join(METRICS)}")
    return METRICS[name]


def bootstrap_interval(
    measure: str | Callable[[Values, Values], float],
    predictions: Values,
    labels: Values,
    seed: int,
    samples: int = 1000,
    level: float = 0.95,
) -> Interval:
    """Percentile bootstrap over rows: draw as many rows with replacement, score, take the middle `level`.

    A function that is no `Metric` is called once per sample.
    """
    if samples < 1 or not 0 < level < 1:
        raise DataError(
            "no such interval", got=(samples, level), rule="samples is at least 1 and level between 0 and 1"
        )
    measure = metric(measure) if isinstance(measure, str) else measure
    predicted, truth = _aligned(predictions, labels)
    rows = len(truth)
    if rows == 1:  # scipy wants two; one row can only be drawn again
        return Interval(*[measure(predicted, truth)] * 2)
    sides: tuple[NDArray[Any], NDArray[Any]] = predicted, truth
    statistic: Callable[..., Any] = measure
    if isinstance(measure, Metric):
        first, second, values = _coded(predicted, truth)
        sides, statistic = (first, second), partial(measure.at_once, values)
    found = stats.bootstrap(
        sides,
        statistic,
        n_resamples=samples,
        batch=max(1, DRAWN // rows),
        vectorized=isinstance(measure, Metric),
        paired=True,
        confidence_level=level,
        method="percentile",
        random_state=numpy.random.default_rng(seed),
    )
    return Interval(*map(float, found.confidence_interval))


# ---- the formulas ---------------------------------------------------------------------------


def _accuracy(predicted: _Codes, truth: _Codes, values: _Floats) -> _Floats:
    """Share of predictions that are right: 0..1."""
    right: _Floats = (predicted == truth).mean(-1)
    return right


def _f1(predicted: _Codes, truth: _Codes, values: _Floats) -> _Floats:
    """F1 of class 1: 0..1, and 0 where class 1 is neither predicted nor present; macro F1 beyond 0 and 1."""
    if not set(values.tolist()) <= {0, 1}:
        return _macro_f1(predicted, truth, values)
    said, true = (values[side] == 1 for side in (predicted, truth))
    return _ratio(2.0 * (said & true).sum(-1), said.sum(-1) + true.sum(-1))


def _macro_f1(predicted: _Codes, truth: _Codes, values: _Floats) -> _Floats:
    """Mean F1 of the classes that are predicted or present: 0..1."""
    said, true, both = _counts(predicted, truth, len(values))
    return numpy.asarray(_ratio(2.0 * both, said + true).sum(-1) / (said + true > 0).sum(-1))


def _matthews(predicted: _Codes, truth: _Codes, values: _Floats) -> _Floats:
    """Matthews correlation: -1..1, and 0 where either side has one class only."""
    rows = float(predicted.shape[-1])
    said, true, both = _counts(predicted, truth, len(values))
    spread = (rows**2 - (true**2).sum(-1)) * (rows**2 - (said**2).sum(-1))
    return _ratio(both.sum(-1) * rows - (true * said).sum(-1), numpy.sqrt(spread))


def _spearman(predicted: _Codes, truth: _Codes, values: _Floats) -> _Floats:
    """Spearman rank correlation, the correlation of the mid-ranks: -1..1, and 0 where either is constant."""
    ranks = []
    for side in (predicted, truth):
        count = _count(side, len(values))
        middle = numpy.cumsum(count, axis=-1) - (count - 1) / 2
        ranks.append(numpy.take_along_axis(middle, side, -1) - (side.shape[-1] + 1) / 2)
    first, second = ranks
    spread = (first**2).sum(-1) * (second**2).sum(-1)
    return _ratio((first * second).sum(-1), numpy.sqrt(spread))


METRICS = {
    known.name: known
    for known in (
        Metric("accuracy", _accuracy),
        Metric("f1", _f1),
        Metric("matthews", _matthews),
        Metric("spearman", _spearman),
        Metric("macro_f1", _macro_f1),
    )
}


def _counts(predicted: _Codes, truth: _Codes, width: int) -> tuple[_Floats, _Floats, _Floats]:
    """How often each class is predicted, is the label, and is both: (..., width) each."""
    both = _count(numpy.where(predicted == truth, truth, width), width + 1)[..., :width]
    return _count(predicted, width), _count(truth, width), both


def _count(codes: _Codes, width: int) -> _Floats:
    """How often each code occurs in its sample: (..., rows) -> (..., width)."""
    samples = codes.reshape(-1, codes.shape[-1])
    apart = samples + width * numpy.arange(len(samples))[:, None]
    count = numpy.bincount(apart.ravel(), minlength=width * len(samples))
    return count.reshape(*codes.shape[:-1], width).astype(numpy.float64)


def _ratio(above: _Floats, below: _Floats) -> _Floats:
    """Divide, with 0 where nothing is below."""
    above, below = numpy.asarray(above, dtype=numpy.float64), numpy.asarray(below)
    return numpy.divide(above, below, out=numpy.zeros_like(above), where=below > 0)


def _coded(predicted: _Floats, truth: _Floats) -> tuple[_Codes, _Codes, _Floats]:
    values, codes = numpy.unique(numpy.stack([predicted, truth]), return_inverse=True)
    first, second = codes.reshape(2, -1)
    return first, second, values


def _aligned(predictions: Values, labels: Values) -> tuple[_Floats, _Floats]:
    """Both sides as finite, equally long vectors."""
    predicted, truth = (numpy.asarray(side, dtype=numpy.float64) for side in (predictions, labels))
    if truth.ndim != 1 or truth.shape != predicted.shape or not len(truth):
        raise DataError(
            "predictions and labels do not match",
            got=f"shapes {predicted.shape} and {truth.shape}",
            rule="one prediction per label, and at least one",
        )
    if not (numpy.isfinite(truth).all() and numpy.isfinite(predicted).all()):
        raise DataError("predictions or labels are not finite", remedy="check the model's outputs for NaN")
    return predicted, truth
