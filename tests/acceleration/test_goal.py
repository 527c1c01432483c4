"""A goal is one of four, within its range, and told in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.acceleration.goal import Goal, in_percent
from powerbert.errors import PowerBertError


@pytest.mark.parametrize(
    ("given_", "kind", "value", "limits_loss"),
    [
        ({"max_loss": 1.0}, "max-loss", 1.0, True),
        ({"max_disagreement": "1%"}, "max-disagreement", 1.0, True),
        ({"max_disagreement": 0.025}, "max-disagreement", 2.5, True),
        ({"speedup": 2.5}, "speedup", 2.5, False),
        ({"latency_ms": 5}, "latency-ms", 5, False),
    ],
)
def test_a_goal_is_whichever_one_is_given(given_, kind, value, limits_loss):
    goal = Goal.of(**given_)
    assert (goal.kind, goal.value, goal.limits_loss) == (kind, pytest.approx(value), limits_loss)
    assert f"{goal.value:g}" in goal.text("accuracy")


@pytest.mark.parametrize("given_", [{}, {"max_loss": 1.0, "speedup": 2.0}])
def test_no_goal_and_two_goals_are_refused_in_one_line_that_names_the_four(given_):
    with pytest.raises(PowerBertError, match="one goal") as error:
        Goal.of(**given_)
    assert "--latency-ms" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "given_",
    [
        {"max_loss": -1.0},
        {"max_loss": 100.0},
        {"max_loss": float("nan")},
        {"speedup": 1.0},
        {"speedup": float("inf")},
        {"latency_ms": 0.0},
        {"max_disagreement": "100%"},
    ],
)
def test_a_value_out_of_range_is_refused(given_):
    with pytest.raises(PowerBertError, match="out of range"):
        Goal.of(**given_)


@given(st.floats(0, 99.99, allow_nan=False).map(lambda value: round(value, 2)))
def test_percent_and_share_are_the_same_goal(value):
    assert in_percent(f"{value}%") == pytest.approx(value)
    if value < 1:
        assert in_percent(f"{value / 100:.6f}") == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize("text", ["", "%", "1.5", "-1%", "one", "1%%", "nan%", "1e-2%"])
def test_a_share_that_could_mean_two_things_is_refused(text):
    with pytest.raises(PowerBertError, match=r"1% or 0\.01"):
        in_percent(text)
