"""Whole splits: one class, repetitions, overlap; what is said about good data."""

from __future__ import annotations

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import DataError
from powerbert.tasks.checks import check_splits
from powerbert.tasks.readers import read_split, read_splits, task_data
from powerbert.tasks.registry import find_task, own_task

OWN = own_task("text")


def csv(path, *rows):
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return path


def test_one_class_only_is_refused_in_train_and_a_warning_in_dev(tmp_path):
    one, two = csv(tmp_path / "one.csv", ("a", 1), ("b", 1)), csv(tmp_path / "two.csv", ("c", 0), ("d", 1))
    with pytest.raises(DataError) as error:  # at once: else the second class of dev would be called unknown
        read_splits({"train": one, "dev": two}, OWN)
    assert str(error.value) == (
        f"{one}: all 2 rows from line 2 on are labelled '1'; training needs at least two classes; "
        "check the label column"
    )
    task, data = read_splits({"train": two, "dev": one}, OWN)
    assert check_splits(data, task).warnings == (
        f"{one}: all 2 rows from line 2 on are labelled '1', so the metric on dev says little",
    )


def test_constant_scores_are_refused_in_train(tmp_path):
    task = own_task("text", kind="regression")
    data = read_split(csv(tmp_path / "a.csv", ("a", 2.5), ("b", 2.5)), task)
    with pytest.raises(DataError, match=r"from line 2 on are labelled 2\.5; training needs at least two values"):
        check_splits({"train": data}, task)


def test_repetitions_and_overlap_are_counted_and_the_first_is_named(tmp_path):
    train = csv(tmp_path / "train.csv", ("a", 0), ("b", 1), ("c", 1), ("b", 1), ("a", 1))
    dev = csv(tmp_path / "dev.csv", ("x", 0), ("c", 1), ("a", 0))
    task, data = read_splits({"train": train, "dev": dev}, OWN)
    findings = check_splits(data, task)
    assert findings.warnings == (
        f"{train}: 2 of 5 train rows repeat the text of an earlier row, 1 of them with another label; "
        "the first is line 5, which repeats line 3",
        f"{dev}: 2 of 3 dev rows are in the training data too; the first is line 3, which is line 4 of {train}",
    )
    assert findings.rows == {"train": 5, "dev": 3}
    assert findings.labels == {"train": {"0": 1, "1": 4}, "dev": {"0": 2, "1": 1}}
    assert findings.lines() == ["train: 5 rows (0 1, 1 4)", "dev: 3 rows (0 2, 1 1)"]


def test_overlap_with_another_label_is_told_and_a_row_without_a_label_has_no_other(tmp_path):
    train, dev = csv(tmp_path / "train.csv", ("a", 0), ("b", 1)), csv(tmp_path / "dev.csv", ("b", 0), ("a", 0))
    task, data = read_splits({"train": train, "dev": dev}, OWN)
    told = "2 of 2 dev rows are in the training data too"
    assert f"{told}, 1 of them with another label; the first is line 2" in check_splits(data, task).warnings[-1]
    unlabelled = read_split(dev, task, labelled=False)
    assert f"{told}; the first is" in check_splits(data | {"dev": unlabelled}, task).warnings[-1]


def test_a_pair_repeats_only_as_a_pair():
    data = datasets.Dataset.from_dict(
        {"text_a": ["ab", "a", "ab"], "text_b": ["c", "bc", "c"], "label": [1.0, 2.0, 3.0]}
    )
    task = find_task("sts-b")
    findings = check_splits({"train": read_split(data, task)}, task)
    assert len(findings.warnings) == 1
    assert "1 of 3 train rows" in findings.warnings[0]
    assert findings.spread["train"] == (1.0, 2.0, 3.0)
    assert findings.lines() == ["train: 3 rows (labels from 1 to 3, mean 2.00)"]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 1)), min_size=1, max_size=30))
def test_counts_agree_with_a_plain_count(rows):
    data = datasets.Dataset.from_dict({"text": [t for t, _ in rows], "label": [y for _, y in rows]})
    task = find_task("sst-2")
    findings = check_splits({"dev": read_split(data, task)}, task)
    repeated = len(rows) - len({text for text, _ in rows})
    assert any(f"{repeated} of {len(rows)} dev rows repeat" in line for line in findings.warnings) == bool(repeated)
    assert findings.labels["dev"] == {
        "negative": sum(y == 0 for _, y in rows),
        "positive": sum(y == 1 for _, y in rows),
    }


def test_unlabelled_data_and_parts_are_told():
    data = datasets.Dataset.from_dict({"text": list("abcd")})
    part = read_split(data, OWN, labelled=False).part(3, seed=1)
    findings = check_splits({"test": part}, OWN)
    assert findings.lines() == ["test: 3 rows"]
    assert findings.notes == ("test: 3 of 4 rows, shuffled with seed 1",)


def test_many_classes_are_shown_in_one_line():
    data = datasets.Dataset.from_dict({"text": [f"t{i}" for i in range(30)], "label": list(range(30))})
    task, splits = read_splits({"train": data}, OWN)
    assert check_splits(splits, task).lines()[0].endswith("9 1, and 20 more classes)")


def test_the_real_overlap_of_cola_is_found(shared):
    task = find_task("cola")
    findings = check_splits(task_data(shared / "data", task), task)
    assert any("16 of 1,043 dev rows are in the training data too" in line for line in findings.warnings)
    assert all("\n" not in line for line in findings.warnings)
