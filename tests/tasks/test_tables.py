"""Rows that have columns already: what is written comes back, declared classes by name; the hub."""

from __future__ import annotations

import tempfile
from pathlib import Path

import datasets
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import DataError
from powerbert.tasks import tables
from powerbert.tasks.readers import read_split, read_splits, task_data
from powerbert.tasks.registry import find_task, own_task

TASK = own_task("text", label="label", labels=("no", "yes"))
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip)
rows_of_text = st.lists(st.tuples(texts, st.integers(0, 1)), min_size=1, max_size=8)


def rows(split) -> list[tuple]:
    return list(zip(split.dataset["text"], split.dataset["label"], strict=True))


@given(rows_of_text)
def test_parquet_and_dataset_objects_round_trip(table):
    columns = {"text": [text for text, _ in table], "label": [label for _, label in table], "other": table}
    frame = pandas.DataFrame(columns)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        frame[["text", "label"]].to_parquet(path)
        split = read_split(path, TASK)
    assert rows(split) == table
    again = read_split(split.dataset, TASK)  # the normalised form is itself readable
    assert rows(again) == table
    assert split.unit == "row"


def test_declared_classes_are_matched_by_name_not_by_index():
    features = datasets.Features(
        {"premise": datasets.Value("string"), "hypothesis": datasets.Value("string")}
        | {"label": datasets.ClassLabel(names=["contradiction", "entailment", "neutral"])}
    )
    data = datasets.Dataset.from_dict(
        {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [0, 1]}, features=features
    )
    assert read_split(data, find_task("mnli-m")).dataset["label"] == [2, 0]
    own = read_split(data, own_task("premise", "hypothesis")).dataset
    assert own["label"] == [0, 1]
    assert own.features["label"].names == ["contradiction", "entailment", "neutral"]


def test_a_label_of_minus_one_means_none():
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(2)})
    data = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, -1]}, features=features)
    with pytest.raises(DataError, match="row 2: the label is missing"):
        read_split(data, TASK)
    assert read_split(data, TASK, labelled=False).dataset.column_names == ["text", "row"]


@pytest.mark.parametrize("data", [datasets.DatasetDict(), 3, None, ["a"]])
def test_another_object_is_refused(data):
    with pytest.raises(DataError, match=r"a split is a path or a datasets\.Dataset"):
        read_split(data, TASK)


def test_declared_classes_with_odd_names_are_found_again_in_dev():
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["1.0", "0.5", "Yes", "yes"])}
    )
    data = datasets.Dataset.from_dict({"text": list("abcd"), "label": [0, 1, 2, 3]}, features=features)
    task, splits = read_splits({"train": data, "dev": data.select([3, 1, 2])}, own_task("text"))
    assert task.labels == ("1.0", "0.5", "Yes", "yes")
    assert splits["dev"].dataset["label"] == [3, 1, 2]


def test_a_table_without_any_known_column_lists_what_it_has(tmp_path):
    data = datasets.Dataset.from_dict({"review": ["a"], "stars": [1]})
    data.to_parquet(tmp_path / "a.parquet")
    for source in (data, tmp_path / "a.parquet"):
        with pytest.raises(DataError, match="no column 'text'; the columns are 'review', 'stars'"):
            read_split(source, TASK)
    pandas.DataFrame({"text": [], "label": []}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match="no rows"):
        read_split(tmp_path / "b.parquet", TASK)
    data.rename_columns({"review": "text", "stars": "label"}).select([0]).to_parquet(tmp_path / "c.parquet")
    with pytest.raises(DataError, match=r"c\.parquet, row 1: the label is unknown; got 1"):
        read_split(tmp_path / "c.parquet", own_task("text", labels=("ham", "spam"), label="label").with_labels(["ham"]))


def test_a_hub_name_is_loaded_with_configuration_and_split(monkeypatch):
    asked = []

    def load_dataset(name, configuration, split):
        asked.append((name, configuration, split))
        return datasets.Dataset.from_dict({"sentence": ["a", "b"], "label": [0, 1]})

    monkeypatch.setattr(tables, "load_dataset", load_dataset)
    split = read_split("hub:nyu-mll/glue:sst2@validation", find_task("sst-2"))
    assert split.source == "hub:nyu-mll/glue:sst2@validation"
    task_data("hub", find_task("sst-2"))
    read_split("hub:me/mine", own_task("sentence"))
    assert asked == [
        ("nyu-mll/glue", "sst2", "validation"),
        ("nyu-mll/glue", "sst2", "train"),
        ("nyu-mll/glue", "sst2", "validation"),
        ("me/mine", None, "train"),
    ]


def test_offline_a_hub_name_gives_one_clear_line(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    with pytest.raises(DataError) as error:
        read_split("hub:stanfordnlp/imdb", find_task("imdb"))
    assert "hub:stanfordnlp/imdb cannot be loaded from the Hugging Face hub" in str(error.value)
    assert "HF_HUB_OFFLINE is set; unset it or give local files" in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="not a dataset of the hub"):
        read_split("hub:../imdb", find_task("imdb"))
