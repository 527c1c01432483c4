"""Which of what was tried is taken; oracle: the definition, on figures made by hand."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.acceleration.choose import Tried, cheapest, expected
from powerbert.acceleration.goal import Goal
from powerbert.acceleration.judge import Comparison, compare
from powerbert.tasks.metrics import Interval
from powerbert.training.ladder import RUNGS, rung

ROWS = 1000
LOST = Goal("max-loss", 1.0)


def tried(losses: list[float]) -> list[Tried]:
    """Rungs, each faster than the one before, that lose so many points of accuracy."""
    labels, found = numpy.zeros(ROWS), []
    for number, loss in enumerate(losses, 1):
        after = (numpy.arange(ROWS) < 10 * loss).astype(float)
        retention = rung(4, 0.75 - 0.05 * number)
        found.append(Tried(str(number), retention, compare("accuracy", labels, after, labels), 1 / number))
    return found


def noisy(losses: list[float], doubt: float) -> list[Tried]:
    """The rungs of a ladder of 12 encoders, whose losses are known to a standard error."""
    found = []
    for number, (budget, loss) in enumerate(zip(RUNGS, losses, strict=True), 1):
        interval = Interval(loss - 1.96 * doubt, loss + 1.96 * doubt)
        known = Comparison("matthews", 0.3, interval, 0.3, interval, loss, interval, 0.5, 0.9, 500)
        found.append(Tried(str(number), rung(12, budget), known, 1 / number))
    return found


RISING = [0.8 * (0.39 / budget) ** 4 for budget in RUNGS]  # 0.8 points at the fifth, 1.4 at the sixth


def test_the_fastest_within_the_goal_is_taken():
    assert cheapest(tried([0.0, 0.2, 0.8, 1.5, 4.0]), LOST).name == "3"


def test_none_is_taken_where_all_lose_too_much():
    assert cheapest(tried([2.0, 3.0]), LOST) is None


def test_a_lucky_rung_among_bad_ones_is_not_taken():
    assert cheapest(tried([0.0, 0.5, 3.0, 2.8, 0.1, 5.0]), LOST).name == "2"


def test_an_unlucky_rung_among_good_ones_does_not_end_the_ladder():
    assert cheapest(tried([0.0, 1.3, 0.2, 0.4, 6.0]), LOST).name == "4"


@pytest.mark.parametrize("doubt", [0.01, 0.5, 3.0])
def test_losses_that_rise_as_they_do_are_believed_whatever_the_doubt(doubt):
    assert cheapest(noisy(RISING, doubt), LOST).name == "5"


def test_a_gain_of_all_rungs_is_spent_only_if_the_rows_are_many():
    lucky = [loss - 4.0 for loss in RISING]
    assert cheapest(noisy(lucky, 0.1), LOST).name == "8"
    assert cheapest(noisy(lucky, 4.0), LOST).name in ("5", "6")


def test_a_loss_of_all_rungs_is_noise_only_if_the_rows_are_few():
    unlucky = [loss + 4.0 for loss in RISING]
    assert cheapest(noisy(unlucky, 0.1), LOST) is None
    assert cheapest(noisy(unlucky, 4.0), LOST).name in ("4", "5")


def test_other_answers_are_counted_as_they_are():
    few = tried([0.0, 0.5, 0.9, 2.0])
    assert cheapest(few, Goal("max-disagreement", 1.0)).name == "3"


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=8), st.floats(0, 10))
def test_any_figures_give_a_choice_that_is_expected_to_keep_the_goal(losses, doubt):
    rungs = noisy([*losses, *[30.0] * (8 - len(losses))], doubt)
    lost, chosen = expected(rungs, LOST), cheapest(rungs, LOST)
    assert numpy.isfinite(lost).all()
    assert (chosen is None) == bool((lost > 1.0).all())
    assert chosen is None or lost[rungs.index(chosen)] <= 1.0


def test_figures_say_which_one_was_chosen():
    one = tried([0.5])[0]
    assert one.to_json(chosen=True)["chosen"]
    assert not one.to_json(chosen=False)["chosen"]
    assert one.to_json(chosen=False)["loss"] == pytest.approx(0.5)
