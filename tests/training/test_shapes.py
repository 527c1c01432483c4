"""Shapes of configurations: they spend their budget, never rise, and early encoders retain more."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import PowerBertError
from powerbert.retention import RetentionConfiguration
from powerbert.training.shapes import LEAST, SHAPES, late, linear, random_configuration, scaled, work


@given(st.sampled_from(list(SHAPES)), st.integers(2, 24), st.floats(0.15, 1.0))
def test_every_shape_spends_its_budget_and_never_rises(name, encoders, budget):
    least = work([1.0] + [LEAST] * (encoders - 1))  # a linear fall starts with all
    if name == "linear" and budget < least:
        with pytest.raises(PowerBertError, match="at least"):
            linear(encoders, budget)
        return
    retention = SHAPES[name](encoders, budget)
    assert len(retention) == encoders
    assert retention.is_relative
    assert work(retention.fractions) == pytest.approx(budget, abs=0.005)


def test_late_retains_more_early_and_less_late_than_linear():
    early, steady = late(12, 0.5).fractions, linear(12, 0.5).fractions
    assert early[3] > steady[3]
    assert early[9] < steady[9]


@given(st.floats(0.1, 0.9))
def test_a_learned_shape_is_raised_or_lowered_to_a_budget(budget):
    learned = RetentionConfiguration.relative((0.9, 0.8, 0.5, 0.2))
    moved = scaled(learned, budget)
    assert work(moved.fractions) == pytest.approx(budget, abs=0.005)


@given(st.integers(0, 999))
def test_random_configurations_lie_between_the_smallest_and_full(seed):
    smallest = linear(12, 0.35)
    drawn = random_configuration(smallest, numpy.random.default_rng(seed))
    assert all(low <= share + 1e-9 for low, share in zip(smallest.fractions, drawn.fractions, strict=True))


@pytest.mark.parametrize("budget", [0.0, 1.5, -1, float("nan")])
def test_an_impossible_budget_is_refused(budget):
    with pytest.raises(PowerBertError, match="share of the work"):
        linear(12, budget)
