"""Arms in turn: what is timed, and what the figures are."""

from __future__ import annotations

import statistics
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from powerbert.machine import measure
from powerbert.machine.measure import Timing, interleave, p95, ratio
from powerbert.machine.verdicts import CRASHES, WORKS, Verdict

ROUNDS = st.lists(st.floats(1e-3, 10), min_size=1, max_size=40)


def test_every_arm_runs_in_every_round_and_the_first_round_does_not_count():
    twice = []
    found = interleave({name: lambda name=name: twice.append(name) for name in "abc"}, rounds=4)
    calls = twice[::2]  # what is over at once runs twice in a row
    assert twice[1::2] == calls
    assert len(calls) == 5 * 3
    for at in range(0, 15, 3):
        assert sorted(calls[at : at + 3]) == ["a", "b", "c"]
    assert len({tuple(calls[at : at + 3]) for at in range(0, 15, 3)}) > 1  # the order changes
    assert all(len(timing.wall) == len(timing.cpu) == 4 for timing in found.values())


def test_of_a_quick_arm_the_second_run_counts_and_a_slow_one_runs_once(monkeypatch):
    monkeypatch.setattr(measure, "QUICK", 0.02)
    naps = iter([0.001, 0.01, 0.03, 0.001])  # the first round, then one that counts
    quick = interleave({"arm": lambda: time.sleep(next(naps))}, rounds=1)["arm"]
    assert quick.median >= 0.03
    assert next(naps) == 0.001


def test_sleeping_costs_wall_time_and_no_cpu_time():
    found = interleave({"sleep": lambda: time.sleep(0.02)}, rounds=2)["sleep"]
    assert found.median >= 0.02
    assert max(found.cpu) < 0.02


@given(ROUNDS)
def test_the_median_lies_within_and_p95_is_one_of_the_rounds(seconds):
    timing = Timing(list(seconds), list(seconds))
    assert timing.median == statistics.median(seconds)
    assert p95(seconds) in seconds
    assert sum(value <= p95(seconds) for value in seconds) >= 0.95 * len(seconds)
    assert timing.spread >= 0


def test_a_ratio_is_taken_within_rounds_so_that_a_slow_round_slows_both_sides():
    slow, fast = Timing([2.0, 20.0, 2.0]), Timing([1.0, 10.0, 1.0])
    assert ratio(slow, fast) == 2.0


FOUND = {
    ("torch", "bf16"): Verdict("torch", "bf16", CRASHES, detail="died with SIGILL"),
    ("openvino", "bf16"): Verdict("openvino", "bf16", CRASHES, detail="died with SIGILL"),
    ("onnx", "int8"): Verdict("onnx", "int8", WORKS, 300.0, 3.0),
    ("openvino", "int8"): Verdict("openvino", "int8", WORKS, 400.0, 4.0),
}


def test_int8_is_that_of_the_fastest_engine_on_all_threads(monkeypatch):
    monkeypatch.setattr(measure, "probe", lambda *pair: FOUND[pair])
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert measure.peaks(["int8", "bf16", "int8"]) == {"int8": 800.0}


def test_only_what_is_asked_for_is_measured(monkeypatch):
    monkeypatch.setattr(measure, "probe", lambda *pair: pytest.fail("probed"))
    monkeypatch.setattr(measure, "SECONDS", 0.01)
    assert list(measure.peaks(["fp32"])) == ["fp32"]
    assert measure.peaks([]) == {}
