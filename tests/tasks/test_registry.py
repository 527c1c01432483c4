"""The eleven tasks against the paper's tables and the release's, and the user's own.

Submissions against the format of GLUE's own baselines, parsed back from the TSV.
"""

from __future__ import annotations

import csv
import io

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import DataError
from powerbert.tasks.metrics import FORMULAS
from powerbert.tasks.registry import TASKS, find_task, own_task, submission
from powerbert.tasks.task import METRIC_NAMES

# The paper's "Dataset statistics" (RACE is scored as 4 choices) and the metrics under its main table.
PAPER = {
    "CoLA": (2, 64, "matthews"),
    "RTE": (2, 256, "accuracy"),
    "QQP": (2, 128, "f1"),
    "MRPC": (2, 128, "f1"),
    "SST-2": (2, 64, "accuracy"),
    "MNLI-m": (3, 128, "accuracy"),
    "MNLI-mm": (3, 128, "accuracy"),
    "QNLI": (2, 128, "accuracy"),
    "STS-B": (0, 64, "spearman"),
    "IMDB": (2, 512, "accuracy"),
    "RACE": (4, 512, "accuracy"),
}
RELEASE = {  # the hyper-parameters that the authors list in the README of their release
    "CoLA": (2e-5, 1.5e-3, 7e-3, 32),
    "RTE": (3e-5, 3e-3, 1e-3, 16),
    "QQP": (3e-5, 1e-4, 3e-4, 64),
    "MRPC": (6e-5, 3e-3, 3e-3, 64),
    "SST-2": (3e-5, 5e-4, 2e-4, 64),
    "MNLI-m": (3e-5, 2e-4, 1e-4, 64),
    "MNLI-mm": (3e-5, 1e-4, 1e-4, 64),
    "QNLI": (3e-5, 2e-4, 1.5e-4, 16),
    "STS-B": (3e-5, 3e-3, 1e-3, 64),
}


def test_the_tasks_are_the_papers():
    assert {t.name: (len(t.labels or ()), t.max_length, t.metric) for t in TASKS} == PAPER
    assert all(task.metric in FORMULAS for task in TASKS)
    assert {*FORMULAS} == {*METRIC_NAMES}


def test_hyper_parameters_are_the_releases_and_else_within_the_papers_ranges():
    for task in TASKS:
        values = task.hyper_parameters
        if task.name in RELEASE:
            assert values.published
            assert (values.lr, values.lr_soft_extract, values.lambda_, values.batch_size) == RELEASE[task.name]
        else:
            assert not values.published
            assert 2e-5 <= values.lr <= 6e-5
            assert 1e-4 <= values.lr_soft_extract <= 1e-2
            assert 1e-4 <= values.lambda_ <= 1e-3
            assert values.batch_size in (4, 8, 16, 32, 64)


@pytest.mark.parametrize(
    ("name", "task"), [("cola", "CoLA"), ("SST2", "SST-2"), ("mnli-MM", "MNLI-mm"), ("sts_b", "STS-B")]
)
def test_case_and_hyphens_do_not_matter(name, task):
    assert find_task(name).name == task


@pytest.mark.parametrize("name", ["MNLI", "", "imdb2", None, 3])
def test_an_unknown_task_lists_those_that_exist(name):
    with pytest.raises(DataError) as error:
        find_task(name)
    assert "CoLA, RTE, QQP, MRPC, SST-2, MNLI-m, MNLI-mm, QNLI, STS-B, IMDB, RACE" in str(error.value)
    assert "\n" not in str(error.value)


def test_heads_and_kinds():
    assert find_task("mnli-m").num_labels == 3
    assert find_task("sts-b").num_labels == find_task("race").num_labels == 1
    assert find_task("rte").is_pair
    assert not find_task("imdb").is_pair
    assert isinstance(hash(find_task("rte")), int)


def test_an_own_task_learns_its_classes_later():
    task = own_task("review", label="stars")
    assert task.is_own
    assert task.metric == "accuracy"
    with pytest.raises(DataError, match="not known yet"):
        _ = task.num_labels
    assert task.with_labels(["1", "2"]).num_labels == 2
    assert not own_task("a", "b", kind="regression").is_own
    assert own_task("a", kind="regression").metric == "spearman"


@pytest.mark.parametrize(
    "wrong",
    [
        dict(text="a", text_pair="a"),
        dict(text="label"),
        dict(text=""),
        dict(text="a", kind="multiple-choice"),
        dict(text="a", metric="bleu"),
    ],
)
def test_a_wrong_own_task_is_refused_in_one_line(wrong):
    with pytest.raises(DataError) as error:
        own_task(**wrong)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "metric", "message"),
    [
        ("regression", "accuracy", "accuracy does not score numbers; a regression is scored by spearman"),
        ("regression", "f1", "f1 does not score numbers"),
        ("regression", "matthews", "matthews does not score numbers"),
        ("regression", "macro_f1", "macro_f1 does not score numbers"),
        ("classification", "spearman", "spearman does not score classes; a classification is scored by"),
    ],
)
def test_a_metric_that_does_not_fit_the_labels_is_refused_at_once(kind, metric, message):
    with pytest.raises(DataError) as error:
        own_task("text", kind=kind, metric=metric)
    assert message in str(error.value)


def test_f1_of_more_than_two_classes_says_that_it_is_the_macro_mean():
    """Whatever classes a dev set happens to hold: the name is settled by the classes of the task."""
    task = own_task("text", metric="f1")
    assert task.metric == "f1"
    assert task.with_labels(["a", "b"]).metric == "f1"
    assert task.with_labels(["a", "b", "c"]).metric == "macro_f1"
    assert own_task("text", metric="f1", labels=("a", "b", "c")).metric == "macro_f1"
    assert find_task("mrpc").metric == "f1"


# ---- submissions -------------------------------------------------------------------------

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
