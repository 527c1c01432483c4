"""Configurations that nobody learned; oracle: the definition. Each spends its budget and never rises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import PowerBertError
from powerbert.retention import RetentionConfiguration
from powerbert.training.shapes import LEAST, RESERVE, late, least_of_late, linear, scaled, work


@given(st.integers(2, 24), st.floats(0.15, 1.0))
def test_a_linear_fall_spends_its_budget_and_never_rises(encoders, budget):
    least = work([1.0] + [LEAST] * (encoders - 1))  # it starts with all
    if budget < least:
        with pytest.raises(PowerBertError, match="at least"):
            linear(encoders, budget)
        return
    retention = linear(encoders, budget)
    assert len(retention) == encoders
    assert retention.is_relative
    assert work(retention.fractions) == pytest.approx(budget, abs=0.005)


@given(st.integers(2, 24), st.floats(0.05, 1.0))
def test_a_late_fall_spends_its_budget_and_the_last_third_falls_first(encoders, budget):
    least = least_of_late(encoders)
    if budget < least:
        with pytest.raises(PowerBertError, match="at least"):
            late(encoders, budget)
        return
    shares = late(encoders, budget).fractions
    assert work(shares) == pytest.approx(budget, abs=1e-3)
    thirds = [{share for j, share in enumerate(shares) if 3 * j // encoders == third} for third in range(3)]
    assert thirds[0] == {1.0}
    assert all(len(third) <= 1 for third in thirds)
    second, last = (max(third, default=least) for third, least in zip(thirds[1:], (1.0, 0.0), strict=True))
    assert last <= second
    assert second == 1.0 or last <= RESERVE + 1e-3


def test_the_least_of_a_late_fall_is_all_in_the_first_third_and_next_to_nothing_behind_it():
    assert least_of_late(9) == pytest.approx((3 + 6 * LEAST) / 9)


@given(st.floats(0.1, 0.9))
def test_a_learned_shape_is_raised_or_lowered_to_a_budget(budget):
    learned = RetentionConfiguration.relative((0.9, 0.8, 0.5, 0.2))
    moved = scaled(learned, budget)
    assert work(moved.fractions) == pytest.approx(budget, abs=0.005)


@pytest.mark.parametrize("budget", [0.0, 1.5, -1, float("nan")])
def test_an_impossible_budget_is_refused(budget):
    with pytest.raises(PowerBertError, match="share of the work"):
        linear(12, budget)
