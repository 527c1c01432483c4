"""A part of a split: shuffled, seeded, stated; and when two lists of classes are the same."""

from __future__ import annotations

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import DataError
from powerbert.tasks.task import Split, same_labels


def numbers(size: int) -> Split:
    dataset = datasets.Dataset.from_dict({"row": list(range(size))})
    return Split(dataset, "file", "line", ("earlier",), skipped=2)


def rows_of(split: Split) -> list[int]:
    return split.dataset["row"][:]


@given(st.integers(1, 60), st.integers(1, 80), st.integers(0, 2**32))
def test_a_part_is_deterministic_distinct_and_grows_by_prefix(size, rows, seed):
    whole = numbers(size)
    part = rows_of(whole.part(rows, seed))
    assert len(part) == len(set(part)) == min(size, rows)
    assert part == rows_of(whole.part(rows, seed))
    assert part == rows_of(whole.part(size, seed))[: len(part)]


def test_it_is_shuffled_and_says_what_it_took():
    part = numbers(1000).part(100, seed=7)
    assert max(rows_of(part)) > 500  # a head would end at 99
    assert part.notes == ("earlier", "100 of 1,000 rows, shuffled with seed 7")
    assert (part.source, part.unit, part.skipped, len(part)) == ("file", "line", 2, 100)
    assert rows_of(part) != rows_of(numbers(1000).part(100, seed=8))
    assert part.dataset.cache_files == []


@pytest.mark.parametrize("rows", [0, -1, True, 1.5, "10"])
def test_no_rows_are_no_part(rows):
    with pytest.raises(DataError, match="at least one row"):
        numbers(3).part(rows, seed=0)


@pytest.mark.parametrize(
    ("own", "asked", "same"),
    [
        (["NEGATIVE", "POSITIVE"], ["negative", "positive"], True),
        (["positive", "negative"], ["negative", "positive"], False),
        (["negative"], ["negative", "positive"], False),
        (["Yes", "yes"], ["yes", "Yes"], False),  # two classes that differ by case alone
        (["Yes", "yes"], ["Yes", "yes"], True),
    ],
)
def test_case_counts_only_where_two_names_differ_by_it(own, asked, same):
    assert same_labels(own, asked) is same
    assert same_labels(asked, own) is same
