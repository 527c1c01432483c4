"""Labels as files write them, and the names of classes."""

from __future__ import annotations

import gzip
import json

import datasets
import pytest

from powerbert.errors import DataError
from powerbert.tasks.labels import same_labels
from powerbert.tasks.readers import read_split, read_splits
from powerbert.tasks.registry import find_task, own_task


def test_own_classes_come_from_the_training_data_in_order(tmp_path):
    def task_and_labels(train, dev):
        for name, labels in {"train": train, "dev": dev}.items():
            lines = "".join(json.dumps({"t": f"text {i}", "y": y}) + "\n" for i, y in enumerate(labels))
            (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
        task, data = read_splits(
            {"dev": tmp_path / "dev.jsonl.gz", "train": tmp_path / "train.jsonl.gz"}, own_task("t", label="y")
        )
        assert list(data) == ["dev", "train"]
        assert data["dev"].dataset.features["label"].names == list(task.labels)
        return task.labels, list(data["train"].dataset["label"]), list(data["dev"].dataset["label"])

    assert task_and_labels(["b", "a", " b"], ["b"]) == (("a", "b"), [1, 0, 1], [1])
    assert task_and_labels([10, 9, 2.0], ["9", "2.0"]) == (("2", "9", "10"), [2, 1, 0], [1, 0])
    assert task_and_labels([True, False], [False]) == (("False", "True"), [1, 0], [0])
    assert task_and_labels(["2", "x"], [2]) == (("2", "x"), [0, 1], [0])
    with pytest.raises(DataError, match=r"dev\.jsonl\.gz, line 1: the label is unknown; got 0"):
        task_and_labels(["no", "yes"], [0])  # an index means nothing where the names were discovered


def test_labels_may_be_indices_numbers_names_or_aliases():
    def labels(values, name):
        data = datasets.Dataset.from_dict({"text": ["x"] * len(values), "label": values})
        return list(read_split(data, find_task(name)).dataset["label"])

    assert labels([0, 1], "imdb") == labels([0.0, 1.0], "imdb") == labels(["0", "1.0"], "imdb") == [0, 1]
    assert labels(["Negative", "pos"], "imdb") == [0, 1]
    assert labels([False, True], "imdb") == [0, 1]
    model = own_task("text", labels=("1", "2", "3"))
    data = datasets.Dataset.from_dict({"text": ["x", "y"], "label": [1, 3]})
    assert list(read_split(data, model).dataset["label"]) == [0, 2]  # named 1 and 3, not indices 1 and 3


@pytest.mark.parametrize(
    ("own", "asked", "same"),
    [
        (["NEGATIVE", "POSITIVE"], ["negative", "positive"], True),
        (["positive", "negative"], ["negative", "positive"], False),
        (["negative"], ["negative", "positive"], False),
        (["Yes", "yes"], ["yes", "Yes"], False),  # two classes that differ by case alone
        (["Yes", "yes"], ["Yes", "yes"], True),
    ],
)
def test_case_counts_only_where_two_names_differ_by_it(own, asked, same):
    assert same_labels(own, asked) is same
    assert same_labels(asked, own) is same
