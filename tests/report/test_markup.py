"""Pieces of a page, each against what a person should read."""

import numpy
import pytest

from powerbert.report.markup import NONE, facts, interval, is_number, ms, number, percent, say, section, table


@pytest.mark.parametrize(("value", "shown"), [("a<b", "a&lt;b"), ('"', "&quot;"), ("a\nb", "a↵b"), ("\u202ex", "�x")])
def test_text_is_harmless(value, shown):
    assert say(value) == shown


@pytest.mark.parametrize("value", [None, "7", float("nan"), float("inf"), [1]])
def test_what_is_no_number_is_a_dash(value):
    assert not is_number(value)
    assert number(value) == percent(value) == ms(value) == NONE


@pytest.mark.parametrize("value", [2, 2.0, numpy.float32(2), numpy.int64(2)])
def test_numbers_of_any_type_are_shown(value):
    assert number(value) == "2.00"
    assert percent(value) == "200.0\N{NO-BREAK SPACE}%"


@pytest.mark.parametrize(("value", "shown"), [(0, "0.00"), (4.216, "4.22"), (11.52, "11.5"), (123.4, "123")])
def test_a_time_has_three_digits(value, shown):
    assert ms(value) == f"{shown}\N{NO-BREAK SPACE}ms"


def test_an_interval_has_a_true_minus():
    assert interval([-0.012, 0.03], 100) == "\N{MINUS SIGN}1.2 to 3.0"
    assert interval(None) == NONE


def test_what_is_empty_leaves_no_trace():
    assert table(("a", "b"), []) == section("id", "title", "note", "") == facts([("a", NONE, "b")]) == facts([]) == ""


def test_the_first_cell_of_a_row_names_it():
    assert '<th scope="row" dir="auto">x</th><td>1</td>' in table(("", "n"), [("x", "1")])
