"""The paper's four metrics and macro F1, as raw values, and their bootstrap intervals.

Each is one formula over the last axis, for many resamples at once: scikit-learn and scipy, the oracle of the tests,
score one per call and take several times as long (`docs/dependencies.md`).

Paper: Hyper-parameters and Evaluation
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy
from numpy.typing import NDArray
from scipy import stats

from powerbert.errors import DataError

Values: TypeAlias = Sequence[float] | NDArray[Any]
_Floats: TypeAlias = NDArray[numpy.float64]
_Codes: TypeAlias = NDArray[numpy.int64]  # (..., rows): one side of samples, each value by its rank among all of both

DRAWN = 2**17  # rows that are drawn at once, so that a large split does not take much memory


class Interval(NamedTuple):
    """A confidence interval, in the units of the metric."""

    low: float
    high: float


def metric(name: str) -> Callable[[Values, Values], float]:
    """Return the metric of that name, a function (predictions, labels) -> raw value."""
    formula = _formula(name)
    return lambda predictions, labels: float(formula(*_coded(predictions, labels)))


def bootstrap_interval(
    name: str, predictions: Values, labels: Values, seed: int, samples: int = 1000, level: float = 0.95
) -> Interval:
    """Percentile bootstrap over rows: draw as many rows with replacement, score, take the middle `level`."""
    if samples < 1 or not 0 < level < 1:
        raise DataError("no such interval", got=(samples, level), rule="samples is at least 1, level between 0 and 1")
    formula, (predicted, truth, values) = _formula(name), _coded(predictions, labels)
    if (rows := len(truth)) == 1:  # scipy wants two; one row can only be drawn again
        return Interval(*[float(formula(predicted, truth, values))] * 2)
    options = {"vectorized": True, "paired": True, "method": "percentile", "confidence_level": level}
    options |= {"n_resamples": samples, "batch": max(1, DRAWN // rows), "random_state": numpy.random.default_rng(seed)}
    # The axis is always the last.
    found = stats.bootstrap((predicted, truth), lambda said, true, axis: formula(said, true, values), **options)
    return Interval(*map(float, found.confidence_interval))


def paired_bootstrap(
    name: str, first: Values, second: Values, labels: Values, seed: int, samples: int = 2000
) -> _Floats:
    """Metric of the first predictions minus that of the second on rows drawn with replacement: (samples,)."""
    formula, sides = _formula(name), [_coded(said, labels) for said in (first, second)]
    draw, rows, found = numpy.random.default_rng(seed), len(sides[0][1]), []
    for start in range(0, samples, step := max(1, DRAWN // rows)):
        drawn = draw.integers(rows, size=(min(step, samples - start), rows))  # the same rows for both
        before, after = (formula(said[drawn], true[drawn], values) for said, true, values in sides)
        found.append(before - after)
    return numpy.concatenate(found)


def _accuracy(predicted: _Codes, truth: _Codes, values: _Floats) -> _Floats:
    """Share of predictions that are right: 0..1."""
    return (predicted == truth).mean(-1)


def _f1(predicted: _Codes, truth: _Codes, values: _Floats) -> _Floats:
    """F1 of class 1: 0..1, and 0 where class 1 is neither predicted nor present; macro F1 beyond 0 and 1."""
    if not set(values.tolist()) <= {0, 1}:
        return _macro_f1(predicted, truth, values)
    said, true, both = (count[..., values == 1].sum(-1) for count in _counts(predicted, truth, len(values)))
    return _ratio(2 * both, said + true)


def _macro_f1(predicted: _Codes, truth: _Codes, values: _Floats) -> _Floats:
    """Mean F1 of the classes that are predicted or present: 0..1."""
    said, true, both = _counts(predicted, truth, len(values))
    return _ratio(_ratio(2 * both, said + true).sum(-1), (said + true > 0).sum(-1))


def _matthews(predicted: _Codes, truth: _Codes, values: _Floats) -> _Floats:
    """Matthews correlation: -1..1, and 0 where either side has one class only."""
    rows = float(predicted.shape[-1])
    said, true, both = _counts(predicted, truth, len(values))
    spread = (rows**2 - (true**2).sum(-1)) * (rows**2 - (said**2).sum(-1))
    return _ratio(both.sum(-1) * rows - (true * said).sum(-1), numpy.sqrt(spread))


def _spearman(predicted: _Codes, truth: _Codes, values: _Floats) -> _Floats:
    """Spearman rank correlation, the correlation of the mid-ranks: -1..1, and 0 where either is constant."""
    first, second = (_mid_ranks(side, len(values)) for side in (predicted, truth))
    return _ratio((first * second).sum(-1), numpy.sqrt((first**2).sum(-1) * (second**2).sum(-1)))


FORMULAS = {"accuracy": _accuracy, "f1": _f1, "matthews": _matthews, "spearman": _spearman, "macro_f1": _macro_f1}
"""(predictions, labels, values that the codes stand for) -> a score for each sample: (...)."""


def _formula(name: str) -> Callable[[_Codes, _Codes, _Floats], _Floats]:
    if name not in FORMULAS:
        raise DataError("unknown metric", got=name, rule=f"metrics are {', '.join(FORMULAS)}")
    return FORMULAS[name]


def _counts(predicted: _Codes, truth: _Codes, width: int) -> tuple[_Floats, _Floats, _Floats]:
    """How often each class is predicted, is the label, and is both: (..., width) each."""
    both = _count(numpy.where(predicted == truth, truth, width), width + 1)[..., :width]
    return _count(predicted, width), _count(truth, width), both


def _mid_ranks(side: _Codes, width: int) -> _Floats:
    """The rank of each row in its sample, equal values sharing theirs, around 0: (..., rows)."""
    count = _count(side, width)
    middle = numpy.cumsum(count, axis=-1) - (count - 1) / 2
    return numpy.take_along_axis(middle, side, -1) - (side.shape[-1] + 1) / 2


def _count(codes: _Codes, width: int) -> _Floats:
    """How often each code occurs in its sample: (..., rows) -> (..., width)."""
    samples = codes.reshape(-1, codes.shape[-1])
    apart = samples + width * numpy.arange(len(samples))[:, None]
    count = numpy.bincount(apart.ravel(), minlength=width * len(samples))
    return count.reshape(*codes.shape[:-1], width).astype(numpy.float64)


def _ratio(above: _Floats, below: _Floats) -> _Floats:
    """Divide, with 0 where nothing is below."""
    return numpy.divide(above, below, out=numpy.zeros_like(above), where=below > 0)


def _coded(predictions: Values, labels: Values) -> tuple[_Codes, _Codes, _Floats]:
    """Both sides, finite and equally long, as codes, and the values that these stand for."""
    predicted, truth = (numpy.asarray(side, dtype=numpy.float64) for side in (predictions, labels))
    if truth.ndim != 1 or truth.shape != predicted.shape or not len(truth):
        got, rule = f"shapes {predicted.shape} and {truth.shape}", "one prediction per label, and at least one"
        raise DataError("predictions and labels do not match", got=got, rule=rule)
    if not (numpy.isfinite(truth).all() and numpy.isfinite(predicted).all()):
        raise DataError("predictions or labels are not finite", remedy="check the model's outputs for NaN")
    values, codes = numpy.unique(numpy.stack([predicted, truth]), return_inverse=True)
    first, second = codes.reshape(2, -1)
    return first, second, values
