"""The loop: what becomes of rows, good and bad. Oracle: counted by hand, and by hypothesis that counts add up."""

from __future__ import annotations

from types import SimpleNamespace

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import DataError, RowError
from powerbert.scoring.answering import Verdicts
from powerbert.scoring.rows import InputRow
from powerbert.scoring.run import score_windows, sound_windows
from powerbert.scoring.staging import Counts
from powerbert.scoring.write import JsonLines
from powerbert.tasks.files import RawRow
from powerbert.tasks.registry import own_task

ENGINE = SimpleNamespace(labels={0: "no", 1: "yes"}, problem_type=None, function=lambda: "softmax")
TASK = own_task("text", labels=("no", "yes"))


def window(good, first=0):
    faults = [None if one else DataError("bad") for one in good]
    return [
        InputRow(RawRow(first + i, {"id": first + i}, f"row {first + i}"), {}, fault) for i, fault in enumerate(faults)
    ]


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=6), max_size=6), st.booleans())
def test_what_is_read_adds_up_and_a_row_is_written_or_counted_as_skipped(windows, record):
    verdicts, parts = Verdicts(ENGINE, TASK, errors=record), []
    answered = [(window(good), numpy.tile(numpy.float32([0, 1]), (sum(good), 1))) for good in windows]
    counts = score_windows(
        answered,
        verdicts,
        JsonLines(verdicts.columns),
        lambda part, counts: parts.append((part, counts)),
        Counts(),
        "skip",
    )
    read, good = sum(map(len, windows)), sum(map(sum, windows))
    bad = read - good
    assert counts == Counts(read, good, 0 if record else bad, bad if record else 0)
    assert [counts for _, counts in parts][-1:] == [counts] * bool(windows)
    assert b"".join(part for part, _ in parts).count(b"\n") == good + bad * record
    assert b"".join(part for part, _ in parts).count(b'"yes"') == good


def test_a_bad_row_ends_a_run_before_its_window_is_answered():
    verdicts = Verdicts(ENGINE, TASK)
    windows = [window([True, True]), window([True, False], 2)]
    coming = sound_windows(windows, verdicts, "fail")
    assert next(coming) == windows[0]
    with pytest.raises(RowError, match="bad, or go on with --on-error skip or record"):
        next(coming)
    assert list(sound_windows(windows, verdicts, "skip")) == windows


def test_an_added_column_never_hides_one_of_the_input():
    rows = [InputRow(RawRow(1, {"text": "good", "score": 3}, "a.csv, line 2"), {"text": "good"})]
    with pytest.raises(DataError, match=r"a\.csv, line 2: there is a column 'score' already"):
        list(sound_windows([rows], Verdicts(ENGINE, TASK), "record"))
    assert list(sound_windows([rows], Verdicts(ENGINE, TASK, prefix="p_"), "fail")) == [rows]


@pytest.mark.parametrize("broken", [numpy.nan, numpy.inf])
def test_an_answer_that_is_no_number_is_a_fault_of_its_row(broken):
    logits = numpy.float32([[0, 1], [broken, 0], [1, 0]])
    answered = [(window([True, False, True, True]), logits)]

    def scored(on_error):
        verdicts, parts = Verdicts(ENGINE, TASK, errors=on_error == "record"), []
        form = JsonLines(verdicts.columns)
        return score_windows(answered, verdicts, form, lambda part, _: parts.append(part), Counts(), on_error), parts

    assert scored("skip")[0] == Counts(4, 2, 2, 0)
    counts, (part,) = scored("record")
    assert counts == Counts(4, 2, 0, 2)
    assert b"row 2: the model's answer is not a number" in part.splitlines()[2]
    assert [line.count(b'"error": null') for line in part.splitlines()] == [1, 0, 0, 1]
    with pytest.raises(RowError, match="bad, or go on"):
        scored("fail")
