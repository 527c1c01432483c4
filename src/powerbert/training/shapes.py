"""Retention configurations that nobody learned, at any budget: a share of the word-vectors of the full model.

The shape matters more than the budget: early encoders need nearly all of their words, the last ones next to none
(docs/results/anytime.md).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy
from numpy.typing import NDArray
from scipy.optimize import bisect

from powerbert.errors import PowerBertError
from powerbert.retention import SCALE, RetentionConfiguration

LEAST = 0.02  # no encoder retains less of its input than this
RESERVE = 0.3  # what is left of an input before an earlier third of the encoders loses any


def late(encoders: int, budget: float) -> RetentionConfiguration:
    """All in the first third of the encoders; the last third falls first, then the second; spends a budget.

    Words go at two encoders alone. Between them nothing is scored and engines fuse the attention: faster than a fall
    at every encoder at the same work, and it keeps more (docs/results/accelerate.md).
    """
    return _with_budget(budget, partial(_late, _thirds(encoders)))


def least_of_late(encoders: int) -> float:
    """The smallest budget that `late` can spend."""
    return work(numpy.where(_thirds(encoders) > 0, LEAST, 1.0))


def _thirds(encoders: int) -> NDArray[Any]:
    return numpy.arange(encoders) * 3 // encoders


def _late(third: NDArray[Any], dial: float) -> NDArray[Any]:
    """The shares at a dial: up to 1 the last third falls to RESERVE, up to 2 the second one, and beyond both go on."""
    last, second, both = (numpy.clip(dial - start, 0, 1) * (1 - RESERVE) for start in (0, 1, 2))
    return numpy.select([third == 0, third == 1], [1.0, 1 - second - both], 1 - last - both)


def linear(encoders: int, budget: float) -> RetentionConfiguration:
    """A fall in equal steps from all at encoder 1, that spends a budget."""
    depth = numpy.arange(encoders) / encoders
    return _with_budget(budget, lambda dial: 1 - depth * dial)


def scaled(shape: RetentionConfiguration, budget: float) -> RetentionConfiguration:
    """The same shape, raised or lowered to a budget: every share to one power."""
    fractions = numpy.clip(numpy.asarray(shape.fractions), 1 / SCALE, 1.0)
    return _with_budget(budget, lambda dial: fractions**dial)


def _with_budget(budget: float, shares: Callable[[float], NDArray[Any]]) -> RetentionConfiguration:
    """Find the dial at which the shares, held between LEAST and 1, spend the budget."""
    if not LEAST <= budget <= 1:
        raise PowerBertError("a budget is a share of the work", got=budget, rule=f"from {LEAST} to 1")

    def held(dial: float) -> NDArray[Any]:
        return shares(dial).clip(LEAST, 1.0)

    most = 1e4
    if work(held(most)) > budget:
        raise PowerBertError("this shape cannot spend so little", got=budget, rule=f"at least {work(held(most)):.3f}")
    dial = bisect(lambda dial: work(held(dial)) - budget, 0.0, most)
    return RetentionConfiguration.relative(held(dial).round(4).tolist())


def work(fractions: Sequence[float] | NDArray[Any]) -> float:
    """The share of word-vectors that all encoders together still process."""
    return float(numpy.mean(fractions))


def first_encoders(encoders: int, depth: int) -> RetentionConfiguration:
    """All word-vectors in the first encoders, and no other encoder: the arm to beat."""
    return RetentionConfiguration.relative([1.0] * depth + [0.0] * (encoders - depth))
