"""Extract and restore against plain indexing."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from powerbert.elimination.extract import extract, extract_queries, restore


@st.composite
def cases(draw):
    batch, length = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    width = draw(st.integers(1, length))
    index = [draw(st.permutations(range(length)))[:width] for _ in range(batch)]
    return torch.rand(batch, length, 3), torch.tensor(index)


@given(cases())
def test_extract_takes_each_inputs_own_rows(case):
    rows, index = case
    expected = torch.stack([rows[b, index[b]] for b in range(len(rows))])
    assert torch.equal(extract(rows, index), expected)
    assert torch.equal(extract(rows[..., 0], index), expected[..., 0])


@given(cases())
def test_extract_queries_takes_the_same_rows_of_every_head(case):
    rows, index = case
    probabilities = torch.rand(rows.shape[0], 2, rows.shape[1], 5)
    expected = torch.stack([probabilities[b][:, index[b]] for b in range(len(rows))])
    assert torch.equal(extract_queries(probabilities, index), expected)


@given(cases(), st.data())
def test_restore_writes_real_rows_at_their_positions_and_nothing_else(case, data):
    canvas, index = case
    rows = torch.rand(*index.shape, 3)
    lengths = [data.draw(st.integers(0, index.shape[1])) for _ in range(len(rows))]
    real = torch.arange(index.shape[1]) < torch.tensor(lengths)[:, None]
    expected = canvas.clone()
    for b, length in enumerate(lengths):
        for i in range(length):
            expected[b, index[b, i]] = rows[b, i]
    assert torch.equal(restore(canvas, rows, index, real), expected)


def test_gradients_reach_the_retained_rows_and_only_them():
    rows = torch.rand(2, 4, 3, requires_grad=True)
    extract(rows, torch.tensor([[0, 2], [0, 3]])).sum().backward()
    assert rows.grad[:, :, 0].tolist() == [[1, 0, 1, 0], [1, 0, 0, 1]]
