"""The real data of the shared folder, against the table in its README."""

from __future__ import annotations

import gzip

import pytest

from powerbert.tasks.readers import task_data
from powerbert.tasks.registry import TASKS

README = {  # rows of the shared data: train, dev
    "CoLA": (8551, 1043),
    "RTE": (2490, 277),
    "QQP": (69549, 7599),
    "MRPC": (3668, 408),
    "SST-2": (67349, 872),
    "MNLI-m": (34732, 9815),
    "MNLI-mm": (34732, 9832),
    "QNLI": (21087, 5463),
    "STS-B": (5749, 1500),
    "IMDB": (25000, 5000),
    "RACE": (87866, 4887),
}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_shared_data_has_the_rows_and_labels_of_its_readme(task, shared):
    if task.name == "RACE":  # 87,866 rows of train take seconds: counted, not parsed
        with gzip.open(shared / "data" / "RACE" / "train.jsonl.gz") as stream:
            assert sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b"")) == 87866
    # MNLI-mm shares MNLI-m's training file, which is read once.
    splits = ["dev"] if task.name in ("RACE", "MNLI-mm") else ["train", "dev"]
    data = task_data(shared / "data", task, splits)
    assert [len(data[split]) for split in splits] == list(README[task.name])[-len(splits) :]
    for split in data.values():
        assert split.notes == ()
        assert split.skipped == 0
        dataset = split.dataset
        labels = set(dataset["label"][:])
        if task.kind == "regression":
            assert min(labels) == 0.0
            assert max(labels) == 5.0
        else:
            assert labels == set(range(len(task.labels)))
            assert dataset.features["label"].names == list(task.labels)
