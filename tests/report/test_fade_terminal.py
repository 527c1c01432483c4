import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console
from traces import trace_of

from powerbert.report.fade_terminal import Fade

TOKENS = ("[CLS]", "a", "gorgeous", ",", "seduct", "##ive", "movie", "with", "a", "plot", "[SEP]")
RETAINED = ((0, 2, 4, 5, 6, 9),) * 2 + ((0, 2, 4, 6), (0, 2, 4)) + ((0, 2),) * 2


def a_trace(tokens=TOKENS, retained=RETAINED, label="positive", score=0.982):
    return trace_of(tokens, retained, label=label, score=score)


def long_trace(length=300):
    tokens = ("[CLS]", *(f"word{index}" for index in range(1, length)))
    retained = tuple(tuple(range(0, length, step)) for step in (2, 4, 8, 16, 32, 64, 128))
    return a_trace(tokens, retained)


def shown(trace, width=100, **options):
    file = io.StringIO()
    Console(file=file, width=width, highlight=False, **options).print(Fade(trace))
    return file.getvalue()


def rows(text):
    """The lines between the header and the summary, as (encoders, count, words)."""
    lines = text.split("\n\n")[1].splitlines()[1:]
    return [re.fullmatch(r" *(\S+) +(\S+)  (.*)", line).groups() for line in lines]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)


def test_each_row_has_its_encoders_its_count_and_dots_for_eliminated_words():
    assert rows(shown(a_trace())) == [
        ("input", "11/11", "[CLS] a gorgeous, seductive movie with a plot [SEP]"),
        ("1-2", "6/11", "[CLS] · gorgeous· seductive movie ···· · plot ·····"),
        ("3", "4/11", "[CLS] · gorgeous· seduct··· movie ···· · ···· ·····"),
        ("4", "3/11", "[CLS] · gorgeous· seduct··· ····· ···· · ···· ·····"),
        ("5-6", "2/11", "[CLS] · gorgeous· ········· ····· ···· · ···· ·····"),
    ]


def test_the_summary_names_the_survivors_the_work_and_the_prediction():
    assert shown(a_trace()).splitlines()[-3:] == [
        "survive    [CLS] gorgeous",
        "processed  23 of 66 word-vectors, 2.9x fewer",
        "predicted  positive (0.982)",
    ]


def test_a_model_without_a_classifier_shows_no_prediction():
    assert "predicted" not in shown(a_trace(label=None, score=None))


def test_a_sentence_of_two_lines_breaks_at_the_same_places_in_every_row():
    text = shown(a_trace(), width=55)
    first, second = text.split("\n\n")[1].splitlines()[1::2], text.split("\n\n")[1].splitlines()[2::2]
    assert len({cell_len(line) for line in first}) == 1
    assert len({cell_len(line) for line in second}) == 1


def test_wide_characters_stay_in_their_columns():
    trace = a_trace(("[CLS]", "日本語", "映画", "[SEP]"), ((0, 1, 2), (0, 2), (0,)))
    assert len({cell_len(words) for _, _, words in rows(shown(trace))}) == 1


def test_no_line_is_wider_than_the_terminal_and_none_ends_in_spaces():
    for width in (36, 46, 55, 80, 100):
        for trace in (a_trace(), long_trace()):
            for line in shown(trace, width=width).splitlines():
                assert cell_len(line) <= width
                assert line == line.rstrip()


def test_a_long_text_lists_retained_words_once_they_are_few_and_eliminated_ones_before():
    lines = rows(shown(long_trace()).replace("\n" + " " * 19, " "))
    assert lines[1][1:2] == ("150/300",)
    assert lines[1][2].startswith("eliminates: word1 word3 word5")
    assert lines[-1] == ("7", "3/300", "[CLS] word128 word256")


def test_a_long_text_stays_on_one_screen():
    assert len(shown(long_trace(512), width=80).splitlines()) < 40


def test_retained_and_eliminated_words_differ_in_colour_on_a_terminal():
    text = shown(a_trace(), force_terminal=True, color_system="standard")
    assert "\x1b[1;32mgorgeous" in text  # survives to the end
    assert "\x1b[1;36mmovie" in text  # retained for now
    assert "\x1b[90m····" in text


def test_no_color_is_honoured_and_the_words_still_tell(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(a_trace(), force_terminal=True)
    assert not re.search(r"\x1b\[[0-9;]*(3[0-7]|9[0-7])", text)
    assert "·" in text


def test_piped_output_has_no_escapes():
    assert "\x1b" not in shown(a_trace())


def test_an_escape_sequence_in_the_text_does_not_reach_the_terminal():
    assert "\x1b" not in shown(a_trace(("[CLS]", "a\x1b]0;pwned\x07b"), ((0, 1), (0,))))


def test_markup_in_the_text_is_shown_as_it_is():
    assert "[red]x[/red]" in shown(a_trace(("[CLS]", "[red]x[/red]"), ((0, 1), (0,))))


def test_a_terminal_without_unicode_gets_full_stops_for_dots():
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(file=file, width=100, highlight=False).print(Fade(a_trace()))
    file.flush()
    assert b"[CLS] . gorgeous. seductive movie .... . plot ....." in file.buffer.getvalue()
