"""The rung of a stated speed; oracle: clocks of which every second is known, and a real model on a real clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert.acceleration.cost import CostTable
from powerbert.acceleration.goal import Goal
from powerbert.acceleration.speed import HALF, MARGIN, TIMES, Shape, budget_for, shape_for, shape_in_time, times_over
from powerbert.retention import RetentionConfiguration
from powerbert.training.ladder import RUNGS, depth_of, rung
from powerbert.training.shapes import work

ENCODERS = 12


def clock(each_encoder: float = 0.0, scale: float = 1.0):
    """Seconds of a configuration: so many for each encoder that runs, beside one for a whole encoder of words."""
    return lambda retention: scale * (each_encoder * retention.depth + ENCODERS * work(retention.fractions))


def test_the_budget_of_a_time_is_the_largest_within_it():
    assert budget_for(lambda budget: 10 * budget, 4.0, 0.15) == pytest.approx(0.4, abs=2e-3)
    assert budget_for(lambda budget: 10 * budget, 11.0, 0.15) == 1.0
    assert budget_for(lambda budget: 10 * budget, 0.5, 0.15) is None


def test_words_go_first_and_encoders_once_half_of_the_words_are_gone():
    seconds = clock()
    assert shape_for(seconds, ENCODERS, 7.0) == Shape(9, pytest.approx(7 / 12, abs=2e-3))
    assert shape_for(seconds, ENCODERS, 4.55).depth == 9  # half of nine
    assert shape_for(seconds, ENCODERS, 4.0).depth == 8
    assert shape_for(seconds, ENCODERS, 3.0).depth == 6


def test_the_more_an_encoder_costs_by_itself_the_fewer_run():
    depths = [shape_for(clock(each), ENCODERS, 6.0).depth for each in (0.0, 0.3, 0.6, 0.9)]
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
    fastest = found.budget * ENCODERS <= HALF * found.depth
    assert true(own) == pytest.approx(MARGIN * limit, rel=0.05) or mildest or fastest


def test_a_speed_out_of_reach_is_told_and_the_fastest_rung_is_taken(caplog):
    with caplog.at_level("WARNING", "powerbert.training"):
        found = shape_in_time(clock(), 0.1, ENCODERS, lambda turn, rungs: [9.0 + i for i in range(len(rungs), 0, -1)])
    assert found == shape_for(clock(), ENCODERS, 0.0)
    assert "cannot be reached" in caplog.text


@pytest.mark.parametrize("goal", [Goal("latency-ms", 10.0), Goal("speedup", 2.0)])
def test_real_rungs_are_timed_in_the_engine_of_the_costs(goal, tmp_path):
    rungs = [rung(6, budget) for budget in (0.7, 0.2)]
    model = tiny("bert", num_hidden_layers=6, max_position_embeddings=512)
    dial = {str(number): each for number, each in enumerate(rungs)}
    powerbert.save(powerbert.apply(model, rungs[0]), tokenizer_for(max_length=512), tmp_path / "rungs", dial=dial)
    table = CostTable((1,), (1.0,), (1.0,), (1.0,), 0.0, "torch", "fp32")
    found = times_over(tmp_path / "rungs", tmp_path / "graphs", ["good film " * 200] * 4, 512, goal, table)
    assert len(found) == 2
    assert 0 < found[1] < found[0]
