"""The paper's rule for N, against its own words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import DataError
from powerbert.tasks.lengths import LENGTHS, choose_max_length, covering_length

some_lengths = st.lists(st.integers(1, 1000), min_size=1, max_size=400)


@given(some_lengths)
def test_covering_length_is_the_least_with_at_most_one_percent_longer(lengths):
    least = next(n for n in range(0, 1001) if sum(length > n for length in lengths) * 100 <= len(lengths))
    # A length that occurs: below the shortest input everything is longer, unless there is nothing left.
    assert covering_length(lengths) == least


@given(some_lengths)
def test_n_is_a_nearest_choice_and_the_larger_of_two(lengths):
    wanted, chosen = covering_length(lengths), choose_max_length(lengths)
    distances = {length: abs(length - wanted) for length in LENGTHS}
    assert chosen == max(length for length in LENGTHS if distances[length] == min(distances.values()))


@given(some_lengths, st.integers(1, 600))
def test_n_never_exceeds_the_model(lengths, limit):
    chosen = choose_max_length(lengths, limit)
    assert chosen <= limit
    assert chosen in LENGTHS or limit < LENGTHS[0]


@pytest.mark.parametrize(
    ("length", "chosen"), [(1, 64), (95, 64), (96, 128), (191, 128), (192, 256), (383, 256), (384, 512), (9000, 512)]
)
def test_ties_go_to_the_larger(length, chosen):
    assert choose_max_length([length]) == chosen


def test_exactly_one_percent_may_be_longer():
    assert covering_length([10] * 99 + [500]) == 10
    assert covering_length([10] * 98 + [500]) == 500
    assert covering_length([10] * 198 + [500] * 2) == 10


def test_no_inputs():
    with pytest.raises(DataError, match="no inputs"):
        choose_max_length([])
