"""Which arms run, and what is said of each. Oracle: the rules of the module, counted by hand."""

from __future__ import annotations

import pytest

from powerbert.bench.arms import Arm
from powerbert.bench.run import choose_arms, headline
from powerbert.machine.measure import Timing


def test_stock_runs_the_full_model_only():
    arms = choose_arms([("stock", "fp32"), ("torch", "fp32")], [1, 8], ["dynamic", "sorted"], True)
    assert {a.model for a in arms if a.engine == "stock"} == {"full"}
    assert {a.feed for a in arms if a.model == "truncated"} == {"sorted"}
    assert len(arms) == len(set(arms)) == 4 + 4 + 4 + 2


def test_without_feeds_every_engine_is_fed_as_it_is_at_its_best():
    arms = choose_arms([("stock", "fp32"), ("torch", "fp32"), ("onnx", "int8")], [1, 32], [], True)
    assert {(a.engine, a.feed) for a in arms} == {("stock", "dynamic"), ("torch", "packed"), ("onnx", "sorted")}
    assert len(arms) == len(set(arms)) == 2 * (1 + 2 + 2)


def timing(seconds: float) -> Timing:
    return Timing([seconds] * 3, [seconds] * 3)


def test_the_headline_is_against_the_best_full_arm_not_the_easiest():
    timings = {
        Arm("full", "dynamic", "stock", "fp32", 8): timing(10.0),
        Arm("full", "fixed", "stock", "fp32", 8): timing(30.0),
        Arm("full", "sorted", "torch", "fp32", 8): timing(6.0),
        Arm("full", "sorted", "onnx", "int8", 32): timing(2.0),
        Arm("eliminated", "sorted", "torch", "fp32", 8): timing(3.0),
        Arm("eliminated", "fixed", "torch", "fp32", 8): timing(0.1),  # a protocol, not a way to answer
        Arm("eliminated", "sorted", "onnx", "int8", 8): timing(1.0),
    }
    found = {(row["precision"], row["against"]): row["ratio"] for row in headline(timings)}
    assert found["fp32", "best full arm in fp32"] == 2.0
    assert found["fp32", "best full arm in any precision"] == pytest.approx(2 / 3)
    assert found["fp32", "stock transformers, batches padded to their longest"] == pytest.approx(10 / 3)
    assert found["fp32", "stock transformers, padded to N"] == 10.0
    assert found["int8", "best full arm in int8"] == 2.0
