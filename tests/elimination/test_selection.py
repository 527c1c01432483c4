"""Scores, ranks and selection against the loops of reference.py."""

from __future__ import annotations

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st

from powerbert.elimination.selection import (
    RANDOM_POSITIONS,
    STRATEGIES,
    Scoring,
    head_ws,
    order,
    rand_ws,
    select,
    significance,
    sorted_positions,
)


@st.composite
def batches(draw, most=4, longest=12):
    """Scores with many ties, real lengths, counts within them."""
    size, length = draw(st.integers(1, most)), draw(st.integers(1, longest))
    scores = draw(
        st.lists(
            st.lists(st.integers(-2, 3).map(float), min_size=length, max_size=length), min_size=size, max_size=size
        )
    )
    lengths = draw(st.lists(st.integers(1, length), min_size=size, max_size=size))
    counts = [draw(st.integers(1, n)) for n in lengths]
    return scores, lengths, counts


@given(batches())
def test_selection_is_the_references_in_order_with_cls_and_no_pad(case):
    scores, lengths, counts = case
    index = select(torch.tensor(scores), torch.tensor(lengths), torch.tensor(counts), max(counts))
    for b, row in enumerate(index.tolist()):
        retained = row[: counts[b]]
        assert retained == reference.select(scores[b], lengths[b], counts[b])
        assert retained[0] == 0
        assert retained == sorted(set(retained))
        assert all(i < lengths[b] for i in retained)
        assert len(set(row)) == len(row)


@given(batches())
def test_order_and_sorted_positions_are_the_references(case):
    scores, lengths, _ = case
    table, sizes = torch.tensor(scores), torch.tensor(lengths)
    ranks = sorted_positions(table, sizes).tolist()
    for b, row in enumerate(order(table, sizes).tolist()):
        expected = reference.order(scores[b], lengths[b])
        assert row == expected
        assert [ranks[b][i] for i in expected] == list(range(len(expected)))


@given(batches(), st.integers(1, 9))
def test_padding_and_neighbours_never_change_what_an_input_retains(case, more):
    scores, lengths, counts = case
    b = len(scores) - 1
    alone = torch.tensor([scores[b][: lengths[b]]])
    wider = torch.nn.functional.pad(torch.tensor(scores), (0, more), value=99.0)
    one = select(alone, torch.tensor(lengths[b:]), torch.tensor(counts[b:]), counts[b])
    many = select(wider, torch.tensor(lengths), torch.tensor(counts), max(counts))
    assert one[0].tolist() == many[b, : counts[b]].tolist()


@given(batches())
def test_fewer_counts_select_a_subset(case):
    scores, lengths, counts = case
    table, sizes = torch.tensor(scores), torch.tensor(lengths)
    fewer = [max(1, count - 1) for count in counts]
    many = select(table, sizes, torch.tensor(counts), max(counts))
    few = select(table, sizes, torch.tensor(fewer), max(fewer))
    for b in range(len(counts)):
        assert set(few[b, : fewer[b]].tolist()) <= set(many[b, : counts[b]].tolist())


def test_scores_that_are_not_numbers_never_displace_cls_or_a_word():
    scores = torch.tensor([[float("nan"), float("nan"), 0.5, float("inf"), float("-inf")]])
    assert select(scores, torch.tensor([5]), torch.tensor([3]), 3).tolist() == [[0, 2, 3]]


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_significance_is_the_papers_double_sum(seed, exclude_self, padded_queries_vote):
    generator = torch.Generator().manual_seed(seed)
    probabilities = torch.rand(3, 2, 5, 5, generator=generator).softmax(dim=-1)
    lengths = [5, 3, 1]
    real = torch.arange(5) < torch.tensor(lengths)[:, None]
    scores = significance(probabilities, real, Scoring(exclude_self, padded_queries_vote))
    expected = reference.significance(probabilities, lengths, exclude_self, padded_queries_vote)
    torch.testing.assert_close(scores, torch.tensor(expected))
    assert scores.dtype == torch.float32


def test_without_padding_the_mask_changes_nothing():
    probabilities = torch.rand(2, 3, 6, 6).softmax(dim=-1)
    torch.testing.assert_close(
        significance(probabilities), significance(probabilities, torch.ones(2, 6, dtype=torch.bool))
    )


def test_half_precision_attention_is_summed_in_fp32():
    probabilities = torch.full((1, 12, 512, 512), 1 / 512, dtype=torch.bfloat16)
    assert significance(probabilities)[0, 0].item() == 12.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_does_not_round_the_scores_of_a_padded_batch(dtype):
    """With and without PAD, and for the same text the same: 50 distinct scores stay distinct."""
    probabilities = torch.rand(2, 12, 50, 50, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
    probabilities = probabilities.to(dtype)
    real = torch.arange(50) < torch.tensor([[50], [31]])
    expected = torch.tensor(reference.significance(probabilities.float(), [50, 31]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        padded, alone = significance(probabilities, real), significance(probabilities[:1])
    assert padded.dtype == alone.dtype == torch.float32
    torch.testing.assert_close(padded, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(alone, expected[:1], atol=1e-5, rtol=0)


def test_head_ws_retains_the_first_words():
    positions = torch.tensor([[0, 2, 5, 9]])
    scores = head_ws(None, positions, None, Scoring())
    assert select(scores, torch.tensor([4]), torch.tensor([3]), 3).tolist() == [[0, 1, 2]]


def test_rand_ws_fixes_positions_for_all_inputs_by_its_seed():
    positions = torch.arange(40).expand(3, 40)
    scores = rand_ws(None, positions, None, Scoring(seed=1))
    assert torch.equal(scores, rand_ws(None, positions, None, Scoring(seed=1)))
    assert torch.equal(scores[0], scores[2])
    assert not torch.equal(scores, rand_ws(None, positions, None, Scoring(seed=2)))
    assert scores[0].unique().numel() == 40


def test_rand_ws_orders_more_positions_than_it_drew():
    positions = torch.arange(RANDOM_POSITIONS + 40)[None]
    scores = rand_ws(None, positions, None, Scoring())
    lengths, counts = torch.tensor([positions.shape[1]]), torch.tensor([RANDOM_POSITIONS])
    retained = select(scores, lengths, counts, RANDOM_POSITIONS)
    assert retained.unique().numel() == RANDOM_POSITIONS
    assert torch.equal(scores[:, :40], rand_ws(None, positions[:, :40], None, Scoring()))


def test_the_strategies_are_siblings_of_one_signature():
    probabilities, positions = torch.rand(2, 2, 4, 4).softmax(dim=-1), torch.arange(4).expand(2, 4)
    for strategy in STRATEGIES.values():
        assert strategy.score(probabilities, positions, None, Scoring()).shape == (2, 4)


def test_attn_ws_says_that_it_needs_attention():
    with pytest.raises(ValueError, match="probabilities"):
        STRATEGIES["attn-ws"].score(None, torch.arange(4)[None], None, Scoring())
