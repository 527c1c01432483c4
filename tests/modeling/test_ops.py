"""The plan of a batch against RetentionConfiguration.counts, input by input; dropout against what its name says."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from powerbert.modeling.families.base import Projections
from powerbert.modeling.ops import bounded, counts, dropout, exact, fast_dropout, fused, rounded
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


@given(st.lists(st.integers(0, 7), min_size=1, max_size=4), st.floats(0.0, 0.9))
def test_dropout_keeps_shape_and_raises_what_it_keeps(shape, p):
    x = torch.full(shape, 2.0)
    found = dropout(x, p, training=True)
    assert found.shape == x.shape
    kept = found[found != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 2.0 / (1 - p)))


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_drops_its_share_independently_and_gives_gradients_through_what_it_kept(p):
    torch.manual_seed(0)
    x = torch.ones(400, 251, requires_grad=True)  # not a multiple of the four numbers of a draw
    found = dropout(x, p, training=True)
    found.sum().backward()
    dropped = (found == 0).float()
    deviation = (p * (1 - p) / dropped.numel()) ** 0.5
    assert abs(dropped.mean().item() - p) < 4 * deviation
    both = (dropped[:, 1:] * dropped[:, :-1]).mean().item()  # neighbours share a draw of 64 bits
    assert abs(both - p * p) < 8 * deviation
    torch.testing.assert_close(x.grad, found.detach())


def test_dropout_is_decided_by_the_seed_and_is_nothing_outside_training():
    x = torch.randn(3, 5)
    torch.manual_seed(7)
    first = dropout(x, 0.5, training=True)
    torch.manual_seed(7)
    assert torch.equal(first, dropout(x, 0.5, training=True))
    assert torch.equal(x, dropout(x, 0.5, training=False))


def test_dropout_layers_are_their_own_again_after_training():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.0)))
    x = torch.ones(64, 4)
    with fast_dropout(model):
        torch.manual_seed(3)
        found = model(x)
        torch.manual_seed(3)
        torch.testing.assert_close(found, dropout(model[0](x), 0.5, training=True))
        model.eval()
        torch.testing.assert_close(model(x), model[0](x))
    assert not any("forward" in vars(layer) for layer in model.modules())


def test_attention_with_dropout_is_attention_without_on_the_average():
    torch.manual_seed(0)
    heads = Projections(*torch.randn(3, 2, 3, 5, 4).unbind(0))
    seen = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.bool)[:, None, None, :]
    plain = fused(heads, seen, 0.5, 0.0)
    mean = torch.stack([fused(heads, seen, 0.5, 0.1) for _ in range(4000)]).mean(dim=0)
    torch.testing.assert_close(mean, plain, atol=0.05, rtol=0)


@given(st.integers(1, 2048), st.integers(0, 64))
def test_a_rounded_width_is_a_little_more_and_never_overtakes_a_larger_one(width, more):
    found = rounded(width)
    assert width <= found <= max(width, 1.0625 * width)
    assert found == width or width > 32
    assert rounded(width + more) >= found
    assert rounded(torch.tensor([width])).tolist() == [found]
    assert rounded(found) == found


def test_rounded_widths_are_few():
    assert len({rounded(width) for width in range(1, 513)}) == 96
