"""Families of relative configurations with one dial, the budget: the share of the work that remains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from powerbert.errors import PowerBertError
from powerbert.retention import SCALE, RetentionConfiguration

LEAST = 0.02  # no encoder retains less of its input than this


def linear(encoders: int, budget: float) -> RetentionConfiguration:
    """Fall in equal steps from all at encoder 1."""
    return _with_budget(encoders, budget, lambda depth, dial: 1 - depth * dial)


def late(encoders: int, budget: float) -> RetentionConfiguration:
    """Retain all for as long as possible, then fall to nothing within a third of the depth."""
    return _with_budget(encoders, budget, lambda depth, dial: 1 - 3 * (depth - (1 - dial)))


def flat(encoders: int, budget: float) -> RetentionConfiguration:
    """Retain the same share everywhere; the shape to beat."""
    return RetentionConfiguration.relative([max(budget, LEAST)] * encoders)


SHAPES: dict[str, Callable[[int, float], RetentionConfiguration]] = {
    "late": late,
    "linear": linear,
    "flat": flat,
}


def work(fractions: Sequence[float] | NDArray[Any]) -> float:
    """The share of word-vectors that all encoders together still process."""
    return float(numpy.mean(fractions))


def scaled(shape: RetentionConfiguration, budget: float) -> RetentionConfiguration:
    """The same shape, raised or lowered to a budget: every share to one power, found by bisection."""
    fractions = numpy.clip(numpy.asarray(shape.fractions), 1 / SCALE, 1.0)
    return _bisect(budget, lambda dial: fractions**dial)


def random_configuration(
    least: RetentionConfiguration, generator: numpy.random.Generator
) -> RetentionConfiguration:
    """Draw shares between those of `least` and 1, never rising."""
    low = numpy.asarray(least.fractions)
    drawn = low + (1 - low) * generator.random(len(least))
    return RetentionConfiguration.relative(numpy.minimum.accumulate(drawn).clip(1 / SCALE, 1.0).tolist())


def _with_budget(
    encoders: int, budget: float, share: Callable[[float, float], float]
) -> RetentionConfiguration:
    depths = [j / encoders for j in range(encoders)]
    return _bisect(budget, lambda dial: numpy.asarray([share(depth, dial) for depth in depths]))


def _bisect(budget: float, shares: Callable[[float], NDArray[Any]]) -> RetentionConfiguration:
    """Find the dial at which the shares, held between LEAST and 1, spend the budget."""
    if not LEAST <= budget <= 1:
        raise PowerBertError("a budget is a share of the work", got=budget, rule=f"from {LEAST} to 1")
    low, high = 0.0, 1e4
    least = work(shares(high).clip(LEAST, 1.0))
    if least > budget:
        raise PowerBertError("this shape cannot spend so little", got=budget, rule=f"at least {least:.3f}")
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if work(shares(middle).clip(LEAST, 1.0)) > budget else (low, middle)
    return RetentionConfiguration.relative(shares(high).clip(LEAST, 1.0).round(4).tolist())
