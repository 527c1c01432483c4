"""Batches of like length: nothing lost, nothing over budget; for training, decided by seed and epoch."""

from __future__ import annotations

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from texts import tokenizer_for
from torch.utils.data import DataLoader

from powerbert.errors import DataError, PowerBertError
from powerbert.text.batches import Collator, LengthGroupedSampler, collate, length_order, plan_batches

LENGTHS = st.lists(st.integers(1, 600), max_size=80)
SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=9)


def row(words, **more):
    """An input of so many words, none of them PAD."""
    ids = list(range(5, 5 + words))
    return {"input_ids": ids, "attention_mask": [1] * words, "token_type_ids": [0] * words, **more}


# ---- plan --------------------------------------------------------------------------------


@given(LENGTHS, st.integers(1, 3000), st.none() | st.integers(1, 20))
def test_every_input_is_in_one_batch_and_no_batch_is_over_budget(lengths, budget, most):
    batches = plan_batches(lengths, budget, most)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget
        assert most is None or len(batch) <= most


@given(LENGTHS, st.integers(1, 30_000))
def test_large_batches_have_few_numbers_of_rows_and_still_half_of_what_the_budget_allows(lengths, budget):
    batches, left = plan_batches(lengths, budget), len(lengths)
    for batch in batches:
        most = min(left, max(1, budget // lengths[batch[0]]))
        assert most / 2 < len(batch) <= most
        assert len(batch) == most < 16 or len(batch).bit_count() == 1
        left -= len(batch)


@given(LENGTHS)
def test_batches_hold_neighbours_in_length(lengths):
    ordered = [lengths[i] for batch in plan_batches(lengths, 1000) for i in batch]
    assert ordered == sorted(lengths, reverse=True)


@given(st.lists(st.integers(1, 50)))
def test_evaluation_runs_from_long_to_short(lengths):
    order = length_order(lengths)
    assert order == sorted(range(len(lengths)), key=lambda row: -lengths[row])


@pytest.mark.parametrize(("budget", "most"), [(0, None), (-1, 2), (9, 0), (9, -1)])
def test_a_batch_of_nothing_is_refused(budget, most):
    with pytest.raises(PowerBertError, match="at least one"):
        plan_batches([1, 2], budget, most)


# ---- collate -----------------------------------------------------------------------------


@given(SIZES, st.integers(0, 4), st.sampled_from([1, 4, 8]))
def test_padding_is_on_the_right_masked_and_no_wider_than_needed(sizes, pad, multiple):
    batch = collate([row(size) for size in sizes], pad, multiple)
    width = -(-max(sizes) // multiple) * multiple
    for i, size in enumerate(sizes):  # the oracle: a row, then PAD
        assert batch["input_ids"][i].tolist() == [*range(5, 5 + size), *[pad] * (width - size)]
        assert batch["attention_mask"][i].tolist() == [1] * size + [0] * (width - size)
        assert not batch["token_type_ids"][i].any()
    assert {words.dtype for words in batch.values()} == {numpy.dtype(numpy.int64)}


@given(SIZES, st.sampled_from([1, 4, 8]))
def test_a_training_batch_is_padded_as_the_tokenizer_pads(sizes, multiple):
    tokenizer, rows = tokenizer_for(), [row(size, labels=1, length=size) for size in sizes]
    batch = Collator(tokenizer, multiple)(rows)
    assert set(batch) == {"input_ids", "attention_mask", "token_type_ids", "labels"}
    assert batch["attention_mask"].sum(1).tolist() == sizes
    assert torch.equal(batch["input_ids"] == tokenizer.pad_token_id, batch["attention_mask"] == 0)
    expected = tokenizer.pad(
        [{"input_ids": row["input_ids"]} for row in rows],
        padding=True,
        pad_to_multiple_of=multiple,
        return_tensors="pt",
    )
    assert torch.equal(batch["input_ids"], expected["input_ids"])
    assert batch["labels"].dtype == torch.int64


def test_multiple_choice_has_three_axes():
    rows = []
    for label, sizes in ((1, (8, 10, 8, 8)), (3, (7, 7, 7, 7))):
        choices = [row(size) for size in sizes]
        rows.append({name: [choice[name] for choice in choices] for name in choices[0]} | {"labels": label})
    batch = Collator(tokenizer_for())(rows)
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (2, 4, 10)
    assert batch["attention_mask"][0].sum(1).tolist() == [8, 10, 8, 8]
    assert batch["input_ids"][0, 1].tolist() == list(range(5, 15))
    assert batch["labels"].tolist() == [1, 3]


def test_scores_are_floats_and_unlabelled_rows_have_none():
    batch = Collator(tokenizer_for())([row(1, labels=1.0), row(2, labels=2.5)])
    assert batch["labels"].dtype == torch.float32
    assert batch["labels"].tolist() == [1.0, 2.5]
    assert "labels" not in Collator(tokenizer_for())([row(3)])


# ---- the sampler of training -------------------------------------------------------------

lengths_and_batch = st.tuples(st.lists(st.integers(1, 512), max_size=300), st.integers(1, 9))


@given(lengths_and_batch, st.integers(0, 2**32), st.integers(0, 9))
def test_every_row_once_in_an_order_of_seed_and_epoch(data, seed, epoch):
    lengths, batch_size = data
    first, second = (LengthGroupedSampler(lengths, batch_size, seed) for _ in range(2))
    for sampler in (first, second):
        sampler.set_epoch(epoch)
    list(first)  # iterating twice changes nothing
    assert list(first) == list(second)
    assert sorted(first) == list(range(len(lengths)))
    assert len(first) == len(lengths)


def test_epochs_and_seeds_differ():
    orders = []
    for seed, epoch in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        sampler = LengthGroupedSampler(range(1, 101), 8, seed)
        sampler.set_epoch(epoch)
        orders.append(tuple(sampler))
    assert len(set(orders)) == 4


@given(st.integers(0, 99))
def test_batches_have_like_lengths_and_steps_are_not_sorted(seed):
    lengths = [1 + (i * 7919) % 512 for i in range(2000)]
    order = list(LengthGroupedSampler(lengths, 16, seed))
    batches = [[lengths[row] for row in order[at : at + 16]] for at in range(0, len(order), 16)]
    padded = sum(max(batch) * len(batch) for batch in batches)
    assert padded / sum(lengths) < 1.05  # random batches of 16 would pad to 1.9 times
    longest = [max(batch) for batch in batches]
    assert longest != sorted(longest, reverse=True)


@given(st.integers(1, 400), st.integers(1, 4))
def test_half_batches_make_up_the_same_steps(size, half):
    """Two steps or processes of half the batch train on what one of the whole batch does."""
    order = list(LengthGroupedSampler([1 + i % 37 for i in range(size)], 2 * half, seed=3))
    loader = DataLoader(
        range(size), batch_size=half, sampler=LengthGroupedSampler([1 + i % 37 for i in range(size)], 2 * half, 3)
    )
    assert [row for batch in loader for row in batch.tolist()] == order


def test_a_training_batch_of_nothing_is_refused():
    with pytest.raises(DataError, match="at least 1"):
        LengthGroupedSampler([1], 0, 0)


def test_accelerate_passes_the_epoch_on():
    """Trainer calls set_epoch on the loader that accelerate prepared; a resumed epoch has its own order."""
    from accelerate import Accelerator

    sampler = LengthGroupedSampler([1 + i % 7 for i in range(40)], 4, seed=0)
    loader = Accelerator(cpu=True).prepare(DataLoader(range(40), batch_size=4, sampler=sampler))
    epochs = []
    for epoch in (0, 1, 1, 0):
        loader.set_epoch(epoch)
        epochs.append([row for batch in loader for row in batch.tolist()])
    assert epochs[0] == epochs[3]
    assert epochs[1] == epochs[2] != epochs[0]
