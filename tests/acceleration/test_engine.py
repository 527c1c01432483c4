"""What an engine may lose to be taken; oracle: the goal's own words, and a real clock. See test_recipe, too."""

from __future__ import annotations

import numpy
import pytest
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert.acceleration import engine
from powerbert.acceleration.cost import CostTable
from powerbert.acceleration.engine import BEYOND, fastest_engine, inputs_at_once, keeps, most_lost, times_over
from powerbert.acceleration.goal import Goal
from powerbert.acceleration.judge import compare
from powerbert.machine.verdicts import WORKS, Verdict
from powerbert.text.batches import BUDGET
from powerbert.training.ladder import rung

ROWS = 100


def losing(points: int):
    labels = numpy.zeros(ROWS)
    return compare("accuracy", labels, (numpy.arange(ROWS) < points).astype(float), labels)


@pytest.mark.parametrize(
    ("goal", "chosen", "plain", "most"),
    [
        (Goal("max-loss", 4.0), 0, [0, 1], 4.0),  # int8 may spend what fp32 has left
        (Goal("max-loss", 2.0), 3, [0, 1], 3.0),  # or what it lost when it was chosen: less is expected of other rows
        (Goal("max-loss", 2.0), 0, [0, 3], 3.0),  # fp32 stays, though it misses the goal
        (Goal("max-disagreement", 1.0), 0, [2, 2], 2.0),
        (Goal("max-disagreement", 1.0), 0, [0, 0], 1.0),
        (Goal("speedup", 2.0), 9, [1, 4], 4.0 + BEYOND),  # a speed says nothing of the loss
    ],
)
def test_a_precision_may_lose_what_the_goal_allows_and_fp32_is_never_left_out(goal, chosen, plain, most):
    assert most_lost(goal, chosen, [losing(points) for points in plain]) == pytest.approx(most)


def test_one_row_more_leaves_no_engine_out_and_a_clear_loss_does():
    goal, limit = Goal("max-loss", 1.0), 1.0
    assert keeps(losing(2), goal, limit)  # two of a hundred rows, known to 1.4 points
    assert not keeps(losing(9), goal, limit)
    assert not keeps(losing(2), Goal("max-disagreement", 1.0), limit)  # other answers are counted, not guessed


@pytest.mark.parametrize(("longest", "inputs"), [(20, 32), (128, 32), (129, 16), (320, 8), (512, 8), (8192, 1)])
def test_long_inputs_are_timed_in_smaller_batches(longest, inputs):
    assert inputs_at_once([7, longest]) == inputs
    assert inputs == 1 or inputs * longest <= BUDGET


@pytest.mark.parametrize("goal", [Goal("latency-ms", 10.0), Goal("speedup", 2.0)])
def test_real_rungs_are_timed_in_the_engine_of_the_costs(goal, tmp_path):
    rungs = [rung(6, 0.7), rung(6, 0.2, depth=2)]  # two encoders for five: no noise turns that round
    model = tiny("bert", num_hidden_layers=6, max_position_embeddings=512)
    dial = {str(number): each for number, each in enumerate(rungs)}
    powerbert.save(powerbert.apply(model, rungs[0]), tokenizer_for(max_length=512), tmp_path / "rungs", dial=dial)
    table = CostTable((1,), (1.0,), (1.0,), (1.0,), 0.0, "torch", "fp32")
    found = times_over(tmp_path / "rungs", tmp_path / "graphs", ["good film " * 200] * 4, 512, goal, table)
    assert len(found) == 2
    assert 0 < found[1] < found[0]


@pytest.mark.parametrize("eliminates", [True, False])
def test_both_models_are_also_measured_in_bf16_which_is_never_taken(eliminates, tmp_path, monkeypatch):
    """bf16 pays by a probe of our own, so that every machine that runs it has the arm."""
    monkeypatch.setattr(engine, "installed", lambda: ["torch", "openvino"])
    monkeypatch.setattr(engine, "probe", lambda *pair: Verdict(*pair, WORKS, 100.0, 2.0))
    monkeypatch.setattr(engine, "usable", lambda pairs: ([pair for pair in pairs if "int8" not in pair[1]], []))
    model = tiny("bert", num_hidden_layers=2)
    if eliminates:
        powerbert.apply(model, rung(2, 0.7))
    powerbert.save(model, tokenizer_for(), tmp_path / "model")
    texts, goal = ["good film", "the plot is bad"] * 4, Goal("max-loss", 1.0)
    given = (tmp_path / "model", tmp_path / "graphs", texts, texts, 16, goal, 0.0, lambda opened: losing(0))
    found = fastest_engine(*given)
    measured = {(row["model"], row["engine"], row["precision"]) for row in found.figures["arms"]}
    models = {"full", "eliminated"} if eliminates else {"full"}
    expected = {(one, name, "fp32") for one in models for name in ("torch", "openvino")}
    assert measured == expected | {(one, "openvino", "bf16") for one in models}
    assert found.arm.precision == "fp32"
    notes = {note["precision"]: note["note"] for note in found.notes}
    assert notes["fp32"] == ""
    assert ("--precision bf16" in notes.get("bf16", "")) is eliminates
