"""The figures that count, against arms of known times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.bench.arms import Arm, same_mean
from powerbert.bench.headline import headline
from powerbert.machine.measure import Timing


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
