"""Which of what was tried is taken; oracle: the definition, on figures made by hand."""

from __future__ import annotations

import numpy
import pytest

from powerbert.acceleration.choose import Tried, budget_for, cheapest
from powerbert.acceleration.goal import Goal
from powerbert.acceleration.judge import compare
from powerbert.training.ladder import rung

ROWS = 1000


def tried(losses: list[float]) -> list[Tried]:
    """Rungs, each faster than the one before, that lose so many points of accuracy."""
    labels, found = numpy.zeros(ROWS), []
    for number, loss in enumerate(losses, 1):
        after = (numpy.arange(ROWS) < 10 * loss).astype(float)
        found.append(Tried(str(number), rung(4, 0.5), compare("accuracy", labels, after, labels), 1 / number))
    return found


def test_the_fastest_within_the_goal_is_taken():
    assert cheapest(tried([0.0, 0.2, 0.8, 1.5, 4.0]), Goal("max-loss", 1.0)).name == "3"


def test_none_is_taken_where_all_lose_too_much():
    assert cheapest(tried([2.0, 3.0]), Goal("max-loss", 1.0)) is None


def test_a_lucky_rung_among_bad_ones_is_not_taken():
    assert cheapest(tried([0.0, 0.5, 3.0, 2.8, 0.1, 5.0]), Goal("max-loss", 1.0)).name == "2"


def test_an_unlucky_rung_among_good_ones_does_not_end_the_ladder():
    assert cheapest(tried([0.0, 1.3, 0.2, 0.4, 6.0]), Goal("max-loss", 1.0)).name == "4"


def test_the_largest_budget_within_a_time_is_found():
    assert budget_for(lambda budget: 10 * budget, 4.0, 0.15) == pytest.approx(0.4, abs=2e-3)
    assert budget_for(lambda budget: 10 * budget, 11.0, 0.15) == 1.0
    assert budget_for(lambda budget: 10 * budget, 0.5, 0.15) is None


def test_figures_say_which_one_was_chosen():
    one = tried([0.5])[0]
    assert one.to_json(chosen=True)["chosen"]
    assert not one.to_json(chosen=False)["chosen"]
    assert one.to_json(chosen=False)["loss"] == pytest.approx(0.5)
