"""What all studies share. Oracle: rows counted by hand, and the files on disk."""

from __future__ import annotations

import json

import pytest
import torch
from models import tiny
from rich.text import Text
from studied import sentences, subject_of, word_pieces
from texts import tokenizer_for

import powerbert
from powerbert.errors import DataError, PowerBertError
from powerbert.folders.manifest import folder_digest
from powerbert.studies.study import StudyOutcome, check_output, trend, write_study


def outcome(agrees=True):
    return StudyOutcome({"x": 1}, agrees, "one is 1; the paper's is 1", Text(""), lambda figure: figure.add_subplot())


@pytest.fixture
def subject(tmp_path):
    powerbert.save(tiny("bert"), tokenizer_for(), tmp_path / "model")
    return subject_of(tiny("bert"), sentences(5), folder=tmp_path / "model", output=tmp_path / "out", seed=7)


def test_every_row_is_in_one_batch_and_no_batch_is_large(monkeypatch):
    monkeypatch.setattr("powerbert.studies.study.BUDGET", 40)
    subject, seen = subject_of(tiny("bert"), sentences(30)), []
    for numbers, batch in subject.batches():
        assert batch["input_ids"].numel() <= 40
        for at, number in enumerate(numbers):
            words = batch["input_ids"][at][batch["attention_mask"][at].bool()]
            assert torch.equal(words, word_pieces(subject, number))
        seen += numbers
    assert sorted(seen) == list(range(30))
    assert sorted(number for numbers, _ in subject.batches([3, 8, 5]) for number in numbers) == [3, 5, 8]


def test_asking_what_eliminates_nothing_leaves_the_model_alone():
    subject = subject_of(tiny("bert"), sentences(2))
    assert subject.full.retention.is_full
    assert "forward" not in vars(subject.model.bert)


def test_a_set_with_one_label_is_refused():
    with pytest.raises(DataError, match="all 4 rows of the dataset have one label; got 'LABEL_0'; a metric needs"):
        _ = subject_of(tiny("bert"), sentences(4), [0] * 4).labels


@pytest.mark.parametrize(("values", "expected"), [([1, 2, 3], 1), ([3, 2, 1], -1), ([1, 1, 1], 0), ([1, 3, 2], 0.5)])
def test_a_trend_is_spearmans_correlation_with_the_order(values, expected):
    assert trend(values) == pytest.approx(expected)


def test_the_last_line_says_whether_the_paper_agrees():
    assert outcome().finding == "agrees with the paper: one is 1; the paper's is 1"
    assert outcome(agrees=False).finding.startswith("disagrees with the paper: ")


def test_the_files_tell_what_was_run_and_a_second_run_replaces_them(subject):
    for _ in range(2):
        check_output(subject.output, "redundancy")
        files = write_study("redundancy", subject, outcome(), threads=1, options={"ranks": 4})
    assert [file.name for file in files] == ["redundancy.json", "redundancy.png", "redundancy.svg"]
    record = json.loads(files[0].read_text())
    assert record["settings"] == {
        "study": "redundancy",
        "model": "model",
        "model_digest": folder_digest(subject.folder),
        "task": "own",
        "data": "the dataset",
        "rows": 5,
        "max_length": 40,
        "seed": 7,
        "ranks": 4,
    }
    assert record["figures"] == {"x": 1}
    assert record["agrees"] is True
    assert {"machine", "command", "versions", "threads"} <= set(record)
    assert files[1].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in files[2].read_bytes()


def test_nothing_but_an_earlier_run_of_the_study_is_replaced(subject, tmp_path):
    check_output(tmp_path / "new", "redundancy")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(PowerBertError, match="is a file"):
        check_output(tmp_path / "file", "redundancy")
    with pytest.raises(PowerBertError, match="holds a model"):
        check_output(subject.folder, "redundancy")
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    check_output(other, "redundancy")  # what lies beside is left alone
    for name, content in (("redundancy.png", b"mine"), ("redundancy.json", b'{"settings": {"study": "lengths"}}')):
        (other / name).write_bytes(content)
        with pytest.raises(PowerBertError, match=f"{name} is not of the study redundancy"):
            check_output(other, "redundancy")
