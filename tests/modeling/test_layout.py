"""Packed rows. Oracle: the paper's order, padded, and a count of the rows that reach the linear layers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import batch_of, tiny

import powerbert
from powerbert import RetentionConfiguration
from powerbert.modeling.apply import retention_of, unpad
from powerbert.modeling.layout import _filled

RETENTION = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2))
LENGTHS = [3, 16, 1, 7, 16, 2, 7, 11]
FEW = [3, 1, 11, 2, 7]
"""So few rows that none is added to them."""


def logits(model, batch):
    with torch.inference_mode():
        return model(**batch).logits


def rows_of(model, batch) -> int:
    """Rows that reach the feed-forward networks."""
    seen = []
    hooks = [
        layer.intermediate.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape[:-1].numel()))
        for layer in model.bert.encoder.layer
    ]
    logits(model, batch)
    for hook in hooks:
        hook.remove()
    return sum(seen)


@given(lengths=st.lists(st.integers(1, 30), min_size=2, max_size=9))
def test_both_layouts_answer_as_the_papers_order_does(lengths):
    model, batch = tiny("bert"), batch_of(lengths)
    expected = logits(powerbert.apply(model, RETENTION, _reference=True), batch)
    powerbert.apply(model, RETENTION)
    for packed in (True, False):
        torch.testing.assert_close(logits(unpad(model, packed), batch), expected, atol=1e-5, rtol=0)


def test_pad_costs_nothing():
    """Encoder j feeds forward what it retains, the last one CLS alone: counted by the configuration."""
    model, batch = powerbert.apply(tiny("bert"), RETENTION), batch_of(FEW)
    retained = sum(sum(RETENTION.counts(length)[:-1]) + 1 for length in FEW)
    assert rows_of(model, batch) == retained
    assert rows_of(unpad(model, False), batch) > 1.3 * retained


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "mpnet", "deberta-v2", "modernbert"])
def test_a_model_that_eliminates_nothing_can_leave_pad_out_too(family):
    model = tiny(family)
    batch = batch_of(LENGTHS, pad=model.config.pad_token_id or 0)
    stock = logits(model, batch)
    torch.testing.assert_close(logits(unpad(model), batch), stock, atol=1e-5, rtol=0)
    assert sum(map(retention_of(model).total, LENGTHS)) == 4 * sum(LENGTHS)
    assert torch.equal(logits(unpad(model, False), batch), stock)


@given(st.lists(st.integers(1, 900), min_size=1, max_size=5))
def test_matrices_are_filled_with_zeros_to_less_than_an_eighth_more(sizes):
    rows = sum(sizes)
    filled = _filled([torch.ones(size, 2) for size in sizes])
    assert filled[:rows].eq(1).all()
    assert filled[rows:].eq(0).all()
    assert len(filled) == rows if rows <= 32 else len(filled) < 1.125 * rows


def test_kernels_are_made_for_few_numbers_of_rows():
    """Each number of rows costs 0.6 MB for every shape of weights: 120 of them, 3 shapes, 220 MB at most."""
    assert len({len(_filled([torch.ones(rows, 1)])) for rows in range(1, 4097)}) <= 120


def test_unpadding_a_full_model_computes_real_rows_only():
    model = unpad(tiny("bert"))
    assert rows_of(model, batch_of(FEW)) == 3 * sum(FEW) + len(FEW)


def test_heads_that_read_every_position_and_training_keep_the_padded_layout():
    batch = batch_of(LENGTHS)
    words = powerbert.apply(tiny("bert", "ForTokenClassification"), RETENTION)
    assert logits(words, batch).shape[:2] == batch["input_ids"].shape
    learner = powerbert.apply(tiny("bert"), RETENTION).train()
    learner(**batch, labels=torch.zeros(len(LENGTHS), dtype=torch.long)).loss.backward()
    assert all(p.grad is not None for p in learner.bert.encoder.layer[0].parameters())
