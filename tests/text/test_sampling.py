"""Batches of like length: a permutation, decided by seed and epoch, and really of like length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from powerbert.errors import DataError
from powerbert.text.sampling import LengthGroupedSampler, length_order

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
        range(size),
        batch_size=half,
        sampler=LengthGroupedSampler([1 + i % 37 for i in range(size)], 2 * half, 3),
    )
    assert [row for batch in loader for row in batch.tolist()] == order


@given(st.lists(st.integers(1, 50)))
def test_evaluation_runs_from_long_to_short(lengths):
    order = length_order(lengths)
    assert order == sorted(range(len(lengths)), key=lambda row: -lengths[row])


def test_a_batch_of_nothing():
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
