"""A part of a dataset: shuffled, seeded, stated."""

from __future__ import annotations

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import DataError
from powerbert.tasks.provenance import describe, notes_of, source_of
from powerbert.tasks.sampling import subset


def numbers(size: int) -> datasets.Dataset:
    return describe(datasets.Dataset.from_dict({"row": list(range(size))}), "file", "line", ["earlier"])


@given(st.integers(1, 60), st.integers(1, 80), st.integers(0, 2**32))
def test_a_part_is_deterministic_distinct_and_grows_by_prefix(size, rows, seed):
    whole = numbers(size)
    part = subset(whole, rows, seed)["row"][:]
    assert len(part) == len(set(part)) == min(size, rows)
    assert part == subset(whole, rows, seed)["row"][:]
    assert part == subset(whole, size, seed)["row"][: len(part)]


def test_it_is_shuffled_and_says_what_it_took():
    part = subset(numbers(1000), 100, seed=7)
    assert max(part["row"]) > 500  # a head would end at 99
    assert notes_of(part) == ("earlier", "100 of 1,000 rows, shuffled with seed 7")
    assert source_of(part) == "file"
    assert part["row"][:] != subset(numbers(1000), 100, seed=8)["row"][:]
    assert part.cache_files == []


@pytest.mark.parametrize("rows", [0, -1, True, 1.5, "10"])
def test_no_rows_are_no_part(rows):
    with pytest.raises(DataError, match="at least one row"):
        subset(numbers(3), rows, seed=0)
