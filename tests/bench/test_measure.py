"""Arms in turn: what is timed, and what the figures are."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.bench import measure
from powerbert.bench.arms import Arm, same_mean
from powerbert.bench.headline import headline
from powerbert.machine.measure import Timing, interleave, p95, ratio
from powerbert.machine.describe import Watch, machine, own_seconds
from powerbert.machine.describe import extra_megabytes

SECONDS = st.lists(st.floats(1e-3, 10), min_size=1, max_size=40)


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


@given(SECONDS)
def test_the_median_lies_within_and_p95_is_one_of_the_rounds(seconds):
    timing = Timing(list(seconds), list(seconds))
    assert timing.median == statistics.median(seconds)
    assert p95(seconds) in seconds
    assert sum(value <= p95(seconds) for value in seconds) >= 0.95 * len(seconds)
    assert timing.spread >= 0


def test_a_ratio_is_taken_within_rounds_so_that_a_slow_round_slows_both_sides():
    slow, fast = Timing([2.0, 20.0, 2.0]), Timing([1.0, 10.0, 1.0])
    assert ratio(slow, fast) == 2.0


def timing(seconds: float) -> Timing:
    return Timing([seconds] * 3, [seconds] * 3)


def test_the_headline_is_against_the_best_unpruned_arm_not_the_easiest():
    timings = {
        Arm("unpruned", "dynamic", "stock", "fp32", 8): timing(10.0),
        Arm("unpruned", "fixed", "stock", "fp32", 8): timing(30.0),
        Arm("unpruned", "sorted", "torch", "fp32", 8): timing(6.0),
        Arm("unpruned", "sorted", "onnx", "int8", 32): timing(2.0),
        Arm("eliminated", "sorted", "torch", "fp32", 8): timing(3.0),
        Arm("eliminated", "fixed", "torch", "fp32", 8): timing(0.1),  # a protocol, not a way to answer
        Arm("eliminated", "sorted", "onnx", "int8", 8): timing(1.0),
    }
    found = {(row["precision"], row["against"]): row["ratio"] for row in headline(timings)}
    assert found["fp32", "best unpruned arm in fp32"] == 2.0
    assert found["fp32", "best unpruned arm in any precision"] == pytest.approx(2 / 3)
    assert found["fp32", "stock transformers, batches padded to their longest"] == pytest.approx(10 / 3)
    assert found["fp32", "stock transformers, padded to N"] == 10.0
    assert found["int8", "best unpruned arm in int8"] == 2.0


@given(st.lists(st.integers(1, 500), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_texts_cut_to_the_cap_have_the_share_of_words_or_just_above(lengths, share):
    cap = same_mean(lengths, share)
    goal = share * sum(lengths)
    assert sum(min(length, cap) for length in lengths) >= goal
    assert cap == 1 or sum(min(length, cap - 1) for length in lengths) < goal


def test_a_busy_machine_is_told(monkeypatch):
    watch = Watch()
    assert watch.others() is not None  # Linux tells
    monkeypatch.setattr(Watch, "others", lambda self: 0.5)
    assert "50 %" in watch.warning()
    monkeypatch.setattr(Watch, "others", lambda self: 0.05)
    assert watch.warning() is None


def test_the_work_of_a_child_is_our_own_work():
    before = own_seconds()
    burn = "import time\nwhile time.process_time() < 0.6: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert own_seconds() - before >= 0.5


def test_the_machine_names_its_processor_and_versions():
    found = machine()
    assert found["processor"]
    assert found["cores"] >= 1
    assert "torch" in found["versions"]


def test_extra_memory_is_what_the_work_takes_at_its_height():
    assert extra_megabytes(lambda: bytearray(b"x") * 100_000_000) > 80
