"""Submissions against the format of GLUE's own baselines, parsed back from the TSV."""

from __future__ import annotations

import csv
import io

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import DataError
from powerbert.tasks.registry import TASKS, find_task, own_task
from powerbert.tasks.submission import submission

# File name -> what its second column may hold, in order of the class index; from GLUE's FAQ and baselines.
OFFICIAL = {
    "CoLA.tsv": ["0", "1"],
    "SST-2.tsv": ["0", "1"],
    "MRPC.tsv": ["0", "1"],
    "QQP.tsv": ["0", "1"],
    "MNLI-m.tsv": ["entailment", "neutral", "contradiction"],
    "MNLI-mm.tsv": ["entailment", "neutral", "contradiction"],
    "QNLI.tsv": ["entailment", "not_entailment"],
    "RTE.tsv": ["entailment", "not_entailment"],
}
GLUE = [task for task in TASKS if task.name not in ("IMDB", "RACE")]
CLASSES = [task for task in GLUE if task.kind == "classification"]


def parsed(content):
    """The second column of a TSV, after a look at the first."""
    rows = list(csv.reader(io.StringIO(content, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert rows[0] == ["index", "prediction"]
    assert [row[0] for row in rows[1:]] == [str(index) for index in range(len(rows) - 1)]
    assert {len(row) for row in rows} == {2}
    return [row[1] for row in rows[1:]]


def test_the_files_are_the_official_ones():
    names = {submission(task, [0])[0] for task in GLUE}
    assert names == {*OFFICIAL, "STS-B.tsv"}


def test_the_content_to_the_byte():
    assert submission(find_task("rte"), [1, 0]) == ("RTE.tsv", "index\tprediction\n0\tnot_entailment\n1\tentailment\n")
    assert submission(find_task("cola"), [1, 0]) == ("CoLA.tsv", "index\tprediction\n0\t1\n1\t0\n")
    assert submission(find_task("sts-b"), [3.14159]) == ("STS-B.tsv", "index\tprediction\n0\t3.142\n")


@given(st.data(), st.sampled_from(CLASSES))
def test_classes_come_back_from_the_file(data, task):
    answers = data.draw(st.lists(st.integers(0, len(task.labels) - 1), min_size=1, max_size=50))
    name, content = submission(task, answers)
    assert [OFFICIAL[name].index(answer) for answer in parsed(content)] == answers
    assert submission(task, numpy.array(answers)) == (name, content)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_values_come_back_clipped_and_to_three_decimals(answers):
    written = parsed(submission(find_task("sts-b"), answers)[1])
    for text, answer in zip(written, answers, strict=True):
        assert float(text) == pytest.approx(min(max(answer, 0), 5), abs=0.00051)
        assert len(text) == 5  # 0.000 to 5.000, and never -0.000
    assert parsed(submission(find_task("sts-b"), numpy.array(answers))[1]) == written


@pytest.mark.parametrize(
    ("task", "answers", "says"),
    [
        ("cola", [], "official test file of CoLA"),
        ("sts-b", numpy.array([]), "official test file of STS-B"),
        ("cola", [0, 2], "index 1"),
        ("mnli-m", [3], "0 to 2"),
        ("rte", [-1], "entailment, not_entailment"),
        ("rte", [0.0], "class index"),
        ("rte", ["entailment"], "class index"),
        ("qqp", [float("nan")], "index 0"),
        ("qnli", [[0.1, 0.9]], "class index"),
        ("sts-b", [1.0, float("nan")], "index 1"),
        ("sts-b", [float("inf")], "finite"),
        ("sts-b", [None], "finite"),
        ("imdb", [0], "GLUE's tasks are CoLA, RTE, QQP, MRPC, SST-2, MNLI-m, MNLI-mm, QNLI, STS-B;"),
        ("race", [0], "plain predictions"),
    ],
)
def test_what_glue_would_reject_is_refused_in_one_line(task, answers, says):
    with pytest.raises(DataError) as error:
        submission(find_task(task), answers)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_users_own_task_is_no_submission_whatever_its_name():
    with pytest.raises(DataError, match="no GLUE submission for task CoLA"):
        submission(own_task("text", labels=("a", "b"), name="CoLA"), [0])
