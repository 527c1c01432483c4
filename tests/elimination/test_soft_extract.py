"""Soft-extract and mass against the loops of reference.py."""

from __future__ import annotations

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st

from powerbert.elimination.selection import sorted_positions
from powerbert.elimination.soft_extract import mass, project, relative_mass, soft_extract, soft_extract_relative


@st.composite
def cases(draw):
    batch, length = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    lengths = draw(st.lists(st.integers(1, length), min_size=batch, max_size=batch))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    scores = torch.randint(0, 4, (batch, length), generator=generator).float()
    return torch.rand(batch, length, 2, generator=generator), scores, lengths, generator


@given(cases())
def test_soft_extract_scales_by_the_parameter_of_the_sorted_position(case):
    rows, scores, lengths, generator = case
    r = torch.rand(rows.shape[1] + 2, generator=generator)
    ranks = sorted_positions(scores, torch.tensor(lengths))
    expected = reference.soft_extract(rows, scores.tolist(), lengths, r)
    torch.testing.assert_close(soft_extract(rows, ranks, r), expected)


@given(cases(), st.integers(1, 8))
def test_relative_soft_extract_scales_by_the_bin_of_the_relative_rank(case, bins):
    rows, scores, lengths, generator = case
    r = torch.rand(bins, generator=generator)
    sizes = torch.tensor(lengths)
    expected = reference.soft_extract_relative(rows, scores.tolist(), lengths, r)
    torch.testing.assert_close(soft_extract_relative(rows, sorted_positions(scores, sizes), sizes, r), expected)


def test_gradients_flow_through_word_vectors_and_retention_but_not_for_cls():
    rows = torch.ones(1, 3, 2, requires_grad=True)
    r = torch.tensor([0.2, 0.5, 0.25], requires_grad=True)
    ranks = torch.tensor([[0, 2, 1]])
    soft_extract(rows, ranks, r).sum().backward()
    assert rows.grad[0, :, 0].tolist() == [1.0, 0.25, 0.5]
    assert r.grad.tolist() == [0.0, 2.0, 2.0]


def test_mass_is_the_sum_per_encoder_with_cls_held_at_one():
    r = torch.tensor([[1.0, 0.5, 0.25], [0.0, 0.0, 0.0]])
    assert mass(r).tolist() == [1.75, 1.0]
    assert mass(torch.ones(12, 128)).tolist() == [128.0] * 12
    assert relative_mass(torch.tensor([[1.0, 0.5]])).tolist() == [0.75]


def test_project_brings_parameters_back_into_the_unit_interval():
    r = torch.nn.Parameter(torch.tensor([-0.5, 0.5, 1.5]))
    project(r)
    assert r.tolist() == [0.0, 0.5, 1.0]


def test_more_word_vectors_than_parameters_is_an_error():
    with pytest.raises(ValueError, match="retention parameters"):
        soft_extract(torch.ones(1, 4, 2), torch.arange(4)[None], torch.ones(3))
