"""Which rung is taken; oracle: the definition, on figures made by hand and clocks of which every second is known."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.acceleration.choose import (
    MARGIN,
    MILD,
    TIMES,
    Shape,
    Tried,
    budget_for,
    cheapest,
    expected,
    shape_for,
    shape_in_time,
)
from powerbert.acceleration.goal import Goal
from powerbert.acceleration.judge import Comparison, compare
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.metrics import Interval
from powerbert.training.ladder import RUNGS, depth_of, rung
from powerbert.training.shapes import work

ROWS = 1000
LOST = Goal("max-loss", 1.0)


def flat(budget: float) -> RetentionConfiguration:
    """The same share in each encoder: what is chosen depends on the work alone."""
    return RetentionConfiguration.relative([budget] * 4)


def tried(losses: list[float]) -> list[Tried]:
    """Rungs, each faster than the one before, that lose so many points of accuracy."""
    labels, found = numpy.zeros(ROWS), []
    for number, loss in enumerate(losses, 1):
        after = (numpy.arange(ROWS) < 10 * loss).astype(float)
        retention = flat(0.75 - 0.05 * number)
        found.append(Tried(str(number), retention, compare("accuracy", labels, after, labels), 1 / number))
    return found


def noisy(losses: list[float], doubt: float, agreement: float = 0.95) -> list[Tried]:
    """The rungs of a ladder of 12 encoders, whose losses are known to a standard error."""
    found = []
    for number, (budget, loss) in enumerate(zip(RUNGS, losses, strict=True), 1):
        interval = Interval(loss - 1.96 * doubt, loss + 1.96 * doubt)
        known = Comparison("matthews", 0.0, 0.3, interval, 0.3, interval, loss, interval, 0.5, agreement, 500)
        found.append(Tried(str(number), flat(budget), known, 1 / number))
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


def test_a_loss_of_all_rungs_is_no_noise_where_a_fifth_of_the_answers_changed():
    lost = [7.2, 8.0, 6.5, 8.0, 5.8, 8.0, 8.0, 9.0]  # of 138 rows of RTE
    assert cheapest(noisy(lost, 3.8, 0.8), LOST) is None
    assert cheapest(noisy(lost, 3.8, 0.98), LOST) is not None


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


# ---- a stated speed ------------------------------------------------------------------------

ENCODERS = 12


def clock(each_encoder: float = 0.0, scale: float = 1.0):
    """Seconds of a configuration: so many for each encoder that runs, beside one for a whole encoder of words."""
    return lambda retention: scale * (each_encoder * retention.depth + ENCODERS * work(retention.fractions))


def test_the_budget_of_a_time_is_the_largest_within_it():
    assert budget_for(lambda budget: 10 * budget, 4.0, 0.15) == pytest.approx(0.4, abs=2e-3)
    assert budget_for(lambda budget: 10 * budget, 11.0, 0.15) == 1.0
    assert budget_for(lambda budget: 10 * budget, 0.5, 0.15) is None


def test_words_go_first_and_encoders_once_a_third_of_the_words_are_gone():
    seconds = clock()
    assert shape_for(seconds, ENCODERS, 7.0) == Shape(9, pytest.approx(7 / 12, abs=2e-3))
    for depth in (9, 8, 7, 6, 5):
        assert shape_for(seconds, ENCODERS, MILD * depth + 0.05).depth == depth


def test_the_more_an_encoder_costs_by_itself_the_fewer_run():
    depths = [shape_for(clock(each), ENCODERS, 6.5).depth for each in (0.0, 0.3, 0.6, 0.9)]
    assert depths == sorted(depths, reverse=True)
    assert depths[0] == 9
    assert depths[-1] < 6


@given(st.integers(2, 24), st.floats(0.0, 1.0), st.floats(0.5, 30.0))
def test_a_shape_is_within_the_limit_or_the_fastest_of_all(encoders, each, limit):
    seconds = clock(each)
    found = shape_for(seconds, encoders, limit)
    assert max(1, encoders // 3) <= found.depth <= depth_of(encoders)
    own = rung(encoders, found.budget, found.depth)
    assert own.depth == found.depth
    fastest = shape_for(seconds, encoders, 0.0)
    assert seconds(own) <= limit + 0.05 or found == fastest


def test_rungs_surround_the_shape_run_as_many_encoders_and_fall():
    rungs = Shape(6, 0.3).rungs(ENCODERS)
    shares = [work(each.fractions) for each in rungs]
    assert shares == sorted(shares, reverse=True)
    assert min(abs(share - 0.3) for share in shares) < 1e-3
    assert {each.depth for each in rungs} == {6}
    assert Shape(6, 0.5).rungs(ENCODERS)[0] == RetentionConfiguration.relative([1.0] * 6 + [0.0] * 6)
    assert work(Shape(9, 0.7).rungs(ENCODERS)[0].fractions) == pytest.approx(RUNGS[0], abs=1e-3)


@given(st.floats(0.4, 2.5), st.floats(0.0, 0.5), st.floats(3.5, 7.0))
def test_a_table_of_costs_that_is_wrong_is_corrected_by_the_clock(scale, each, limit):
    true, turns = clock(each, scale), []

    def measured(turn, rungs):
        turns.append(turn)
        return [true(one) / limit for one in rungs]

    found = shape_in_time(clock(), limit, ENCODERS, measured)
    own = rung(ENCODERS, found.budget, found.depth)
    assert turns == list(range(1, len(turns) + 1))
    assert len(turns) <= TIMES
    mildest = work(own.fractions) >= RUNGS[0] - 2e-3
    fastest = found.budget * ENCODERS <= MILD * found.depth
    assert true(own) == pytest.approx(MARGIN * limit, rel=0.05) or mildest or fastest


def test_a_speed_out_of_reach_is_told_and_the_fastest_rung_is_taken(caplog):
    with caplog.at_level("WARNING", "powerbert.training"):
        found = shape_in_time(clock(), 0.1, ENCODERS, lambda turn, rungs: [9.0 + i for i in range(len(rungs), 0, -1)])
    assert found == shape_for(clock(), ENCODERS, 0.0)
    assert "cannot be reached" in caplog.text
