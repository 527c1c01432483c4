"""RetentionConfiguration: the paper's own configurations, rules, text and JSON forms."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import RetentionError
from powerbert.retention import MAX_ENCODERS, RetentionConfiguration

FIGURE_ONE = (80, 73, 70, 50, 50, 40, 33, 27, 20, 15, 13, 3)
RTE = (153, 125, 111, 105, 85, 80, 72, 48, 35, 27, 22, 5)
ANECDOTE = (7, 7, 7, 7, 4, 4, 4, 4, 2, 2, 2, 2)


def falling(elements: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(elements, min_size=1, max_size=24).map(lambda values: sorted(values, reverse=True))


@pytest.mark.parametrize(
    ("counts", "max_length", "total", "whole"),
    [(FIGURE_ONE, 128, 474, 1536), (RTE, 256, 868, 3072), (ANECDOTE, 12, 52, 144)],
)
def test_the_papers_configurations_have_the_papers_totals(counts, max_length, total, whole):
    retention = RetentionConfiguration.absolute(counts, max_length)
    assert retention.total() == total
    assert retention.reduction() == pytest.approx(whole / total)
    assert RetentionConfiguration.parse(",".join(map(str, counts)), max_length) == retention
    assert not retention.is_relative
    assert not retention.is_full


@given(falling(st.integers(1, 128)), st.integers(1, 512))
def test_absolute_counts_are_capped_by_the_real_length(counts, length):
    retention = RetentionConfiguration.absolute(counts, 128)
    assert list(retention.counts(length)) == reference.counts("absolute", counts, length)


@given(falling(st.integers(1, 10_000)), st.integers(1, 512))
def test_relative_counts_are_the_exact_ceiling_of_the_decimal_fraction(thousandths, length):
    fractions = [value / 10_000 for value in thousandths]
    retention = RetentionConfiguration.relative(fractions)
    assert list(retention.counts(length)) == reference.counts("relative", fractions, length)


@given(falling(st.integers(1, 10_000)), st.integers(0, 12), st.integers(1, 512))
def test_an_entry_of_zero_leaves_its_encoder_out_in_every_form(thousandths, zeros, length):
    shorter = RetentionConfiguration.relative([value / 10_000 for value in thousandths])
    retention = RetentionConfiguration.relative([*shorter.fractions, *[0.0] * zeros])
    assert retention.counts(length) == (*shorter.counts(length), *[0] * zeros)
    assert (retention.depth, len(retention), retention.running) == (len(shorter), len(shorter) + zeros, shorter)
    assert retention.is_full == (zeros == 0 and shorter.is_full)
    for again in (RetentionConfiguration.parse(str(retention)), RetentionConfiguration.from_json(retention.to_json())):
        assert again == retention
    absolute = RetentionConfiguration.absolute((*shorter.counts(512), *[0] * zeros), 512)
    assert absolute.counts(length)[len(shorter) :] == (0,) * zeros


def test_a_fraction_never_gains_a_word_vector_from_floating_point():
    assert math.ceil(0.07 * 100) == 8  # the trap
    assert RetentionConfiguration.relative([0.07]).counts(100) == (7,)


def test_a_fraction_finer_than_a_ten_thousandth_is_rounded_up():
    assert RetentionConfiguration.relative([1 / 3, 1e-9]).values == (3334, 1)


@given(falling(st.integers(1, 512)), st.booleans())
def test_text_and_json_round_trips_give_an_equal_configuration(values, relative):
    if relative:
        retention = RetentionConfiguration.relative([value / 512 for value in values])
    else:
        retention = RetentionConfiguration.absolute(values, 512)
    assert RetentionConfiguration.parse(str(retention), retention.max_length) == retention
    assert RetentionConfiguration.from_json(json.dumps(retention.to_json())) == retention
    assert RetentionConfiguration.from_json(retention.to_json()) == retention


@given(st.lists(st.floats(0, 128), min_size=1, max_size=12))
def test_mass_becomes_its_ceiling_at_least_one_and_never_rises(masses):
    expected, before = [], 128
    for mass in masses:
        before = min(before, max(1, math.ceil(mass)))
        expected.append(before)
    assert list(RetentionConfiguration.from_mass(masses, 128).values) == expected


def test_mass_as_a_fraction_becomes_a_relative_configuration():
    retention = RetentionConfiguration.from_mass([0.79, 0.81, 0.2, 0.0])
    assert retention == RetentionConfiguration.relative([0.79, 0.79, 0.2, 0.0001])
    assert retention.counts(50) == (40, 40, 10, 1)


def test_full_retention_is_known_as_such():
    assert RetentionConfiguration.full(12).is_full
    assert RetentionConfiguration.absolute([128] * 12, 128).is_full
    assert not RetentionConfiguration.absolute([128] * 11 + [127], 128).is_full


def test_numpy_integers_are_counts():
    assert RetentionConfiguration.absolute(numpy.array([4, 2]), 4).values == (4, 2)


HUGE = 10**400
MALFORMED = {
    "not monotone": lambda: RetentionConfiguration.absolute([3, 4], 8),
    "fractions not monotone": lambda: RetentionConfiguration.relative([0.3, 0.4]),
    "zero at encoder 1": lambda: RetentionConfiguration.absolute([0, 0], 8),
    "zero fraction at encoder 1": lambda: RetentionConfiguration.relative([0.0, 0.0]),
    "back after a zero": lambda: RetentionConfiguration.relative([0.5, 0.0, 0.5]),
    "negative": lambda: RetentionConfiguration.absolute([3, -1], 8),
    "negative fraction": lambda: RetentionConfiguration.relative([-0.5]),
    "above N": lambda: RetentionConfiguration.absolute([9], 8),
    "above one": lambda: RetentionConfiguration.relative([1.01]),
    "wrong count": lambda: RetentionConfiguration.absolute([3, 2], 8).check_encoders(12),
    "float among counts": lambda: RetentionConfiguration.absolute([3, 2.0], 8),
    "NaN count": lambda: RetentionConfiguration.absolute([float("nan")], 8),
    "NaN fraction": lambda: RetentionConfiguration.relative([float("nan")]),
    "infinite fraction": lambda: RetentionConfiguration.relative([float("inf")]),
    "NaN mass": lambda: RetentionConfiguration.from_mass([float("nan")], 8),
    "bool count": lambda: RetentionConfiguration.absolute([True], 8),
    "bool fraction": lambda: RetentionConfiguration.relative([True]),
    "numpy bool": lambda: RetentionConfiguration.absolute([numpy.bool_(True)], 8),
    "bool N": lambda: RetentionConfiguration.absolute([1], True),
    "empty": lambda: RetentionConfiguration.absolute([], 8),
    "empty fractions": lambda: RetentionConfiguration.relative([]),
    "empty text": lambda: RetentionConfiguration.parse("", 8),
    "made empty by hand": lambda: RetentionConfiguration((), None),
    "huge count": lambda: RetentionConfiguration.absolute([HUGE], 8),
    "huge N": lambda: RetentionConfiguration.absolute([1], HUGE),
    "huge text": lambda: RetentionConfiguration.parse("9" * 10_000, 8),
    "huge list": lambda: RetentionConfiguration.absolute([1] * (MAX_ENCODERS + 1), 8),
    "endless": lambda: RetentionConfiguration.absolute(iter(int, 1), 8),
    "N zero": lambda: RetentionConfiguration.absolute([1], 0),
    "text of words": lambda: RetentionConfiguration.parse("many,few", 8),
    "text of NaN": lambda: RetentionConfiguration.parse("nan,nan", 8),
    "text mixed": lambda: RetentionConfiguration.parse("80,0.5", 128),
    "text with two signs": lambda: RetentionConfiguration.parse("-+5", 8),
    "text with a hole": lambda: RetentionConfiguration.parse("3,,2", 8),
    "counts without N": lambda: RetentionConfiguration.parse("3,2"),
    "a string as counts": lambda: RetentionConfiguration.absolute("32", 8),
    "N as text": lambda: RetentionConfiguration.from_mass([1.0], "3"),
    "half an encoder": lambda: RetentionConfiguration.full(1.5),
    "a float by hand": lambda: RetentionConfiguration((1.5,)),
    "too much by hand": lambda: RetentionConfiguration((20_000,)),
    "none": lambda: RetentionConfiguration.relative(None),
    "broken JSON": lambda: RetentionConfiguration.from_json("{"),
    "JSON of another shape": lambda: RetentionConfiguration.from_json({"kind": "absolute", "counts": [3]}),
    "JSON list": lambda: RetentionConfiguration.from_json("[1, 2]"),
    "length of a relative one": lambda: RetentionConfiguration.relative([0.5]).total(),
}


@pytest.mark.parametrize("make", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_configuration_is_refused_in_one_short_line(make):
    with pytest.raises(RetentionError) as error:
        make()
    assert 0 < len(str(error.value)) < 300
    assert "\n" not in str(error.value)


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused_with_our_error(text):
    try:
        RetentionConfiguration.parse(text, 64)
    except RetentionError as error:
        assert "\n" not in str(error)


def test_retention_needs_no_torch():
    code = "import sys, powerbert.retention; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
