"""Examples. Oracle: `powerbert.trace` of the same texts, rows chosen by hand, and traces made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from datasets import Dataset
from matplotlib.figure import Figure
from models import tiny
from studied import subject_of
from texts import tokenizer_for
from traces import trace_of

import powerbert
from powerbert import RetentionConfiguration
from powerbert.errors import DataError
from powerbert.report.words import Word
from powerbert.studies.examples import COLUMNS, _places, chosen_rows, first_eliminated, papers_thirds, study_examples
from powerbert.studies.study import Subject
from powerbert.tasks.readers import read_split
from powerbert.tasks.registry import own_task

GOOD = "the film is good but the plot is dull ."  # 12 word-vectors
TEXTS = ["good", GOOD, "very good " * 15, "this act was not great and it is bad", "bad"]
LABELS = [0, 0, 1, 1, 2]


def test_the_papers_configuration_in_thirds():
    counts = (7, 7, 7, 7, 4, 4, 4, 4, 2, 2, 2, 2)
    assert papers_thirds(12).counts(12) == counts
    assert papers_thirds(6).counts(12) == counts[::2]
    assert papers_thirds(4).counts(12) == (7, 7, 4, 2)


def test_inputs_of_about_the_papers_length_are_taken_from_each_label_in_turn():
    subject = subject_of(tiny("bert"), TEXTS, LABELS)
    assert chosen_rows(subject, 5) == [1, 3, 4, 0, 2]
    assert chosen_rows(subject, 2) == [1, 3]
    with pytest.raises(DataError, match="fewer inputs than asked for; got 6; the dataset has 5 rows"):
        chosen_rows(subject, 6)


def test_what_survives_is_what_trace_tells():
    model, retention = tiny("bert"), RetentionConfiguration.relative((0.8, 0.5, 0.3, 0.2))
    subject = subject_of(model, TEXTS, LABELS)
    outcome = study_examples(subject, retention, 2)
    assert "forward" not in vars(model.bert)  # elimination is taken off again
    full = powerbert.trace(powerbert.apply(tiny("bert"), RetentionConfiguration.full(4)), tokenizer_for(), GOOD)
    expected = powerbert.trace(powerbert.apply(tiny("bert"), retention), tokenizer_for(), GOOD)
    first = outcome.figures["examples"][0]
    assert first["retained"] == [list(row) for row in expected.retained]
    assert (first["label"], first["full"], first["truth"]) == (expected.label, full.label, "LABEL_0")
    assert first["retention"] == retention.to_json()


def test_both_texts_of_a_pair_and_numbers_are_traced():
    rows = [
        {"text": "the plot is good", "text_pair": f"the film is {word}", "label": i} for i, word in enumerate("abc")
    ]
    task = own_task("text", "text_pair", kind="regression")
    model = tiny("bert", num_labels=1)
    split = read_split(Dataset.from_list(rows), task)
    subject = Subject(Path("model"), model, tokenizer_for(), task, split, 40, Path("studies"))
    outcome = study_examples(subject)
    first = outcome.figures["examples"][0]
    assert first["texts"] == ("the plot is good", "the film is a")
    assert (first["truth"], first["label"]) == ("0", None)
    assert float(first["full"]) == pytest.approx(first["score"], abs=1)
    outcome.draw(Figure())


def test_the_folders_configuration_comes_before_the_papers():
    own = RetentionConfiguration.relative((1.0, 0.9, 0.2, 0.2))
    for carried, expected in ((own, own), (None, papers_thirds(4))):
        outcome = study_examples(subject_of(tiny("bert"), TEXTS, LABELS, retention=carried))
        assert outcome.figures["examples"][0]["retention"] == expected.to_json()


def test_stop_words_and_punctuation_are_counted_among_what_goes_first():
    """Of film, is, the, good and a dot encoder 1 eliminates is and the dot; special pieces do not count."""
    traced = trace_of(
        ("[CLS]", "film", "is", "the", "good", ".", "[SEP]"), ((0, 1, 3, 4, 6), (0, 4)), label="positive", score=0.9
    )
    assert first_eliminated([traced]) == {"function_words": 3 / 5, "function_words_eliminated": 1.0}


def test_a_long_text_is_broken_into_lines_of_the_picture():
    places = _places([Word("x" * 9, 1)] * 20)
    assert places[:2] == [(0, 0), (0, 10)]
    assert places[8] == (1, 0)
    assert all(column + 9 <= COLUMNS for _, column in places)
    assert _places([Word("a", 1), Word("b", 1, joins=True)]) == [(0, 0), (0, 1)]


def test_the_picture_fills_a_box_for_each_retained_word():
    outcome, figure = study_examples(subject_of(tiny("bert"), TEXTS, LABELS)), Figure()
    outcome.draw(figure)
    shown = outcome.figures["examples"]
    rows = [one["retained"] for one in shown]
    different = sum(len({tuple(row) for row in each}) for each in rows)
    boxes = sum(len(one["tokens"]) + sum(map(len, {tuple(row) for row in one["retained"]})) for one in shown)
    (axes,) = figure.axes
    assert len(axes.patches) == boxes
    assert different > 2
