"""The plan of a batch against RetentionConfiguration.counts, input by input."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from powerbert.modeling.ops import bounded, counts, exact
from powerbert.retention import RetentionConfiguration


@st.composite
def cases(draw):
    values = sorted(draw(st.lists(st.integers(1, 50), min_size=1, max_size=6)), reverse=True)
    if draw(st.booleans()):
        retention = RetentionConfiguration.relative([value / 50 for value in values])
    else:
        retention = RetentionConfiguration.absolute(values, 50)
    return retention, draw(st.lists(st.integers(1, 60), min_size=1, max_size=5))


@given(cases())
def test_every_input_retains_what_it_would_retain_alone(case):
    retention, lengths = case
    stages = exact(counts(retention, torch.tensor(lengths)), torch.tensor(lengths))
    before = lengths
    for j, stage in enumerate(stages):
        expected = [retention.counts(length)[j] for length in lengths]
        assert stage.counts.tolist() == expected
        assert stage.width == max(expected)
        assert stage.eliminates == (expected != before)
        assert stage.padded == (min(expected) < max(expected))
        before = expected


@given(cases())
def test_a_plan_from_shapes_is_never_narrower_and_never_misses_an_elimination(case):
    retention, lengths = case
    table = counts(retention, torch.tensor(lengths))
    stages = exact(table, torch.tensor(lengths))
    for stage, traced in zip(stages, bounded(retention, table, max(lengths)), strict=True):
        assert traced.width >= stage.width
        assert traced.eliminates or not stage.eliminates
