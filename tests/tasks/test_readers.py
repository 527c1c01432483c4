"""Every kind of bad data gets one line that names the file and the row.

Labels as files write them; rows that have columns already come back as they were written.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

import datasets
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import DataError
from powerbert.tasks.readers import DataRow, read_split, read_splits, stream_rows
from powerbert.tasks.registry import find_task, own_task

SST = find_task("sst-2")
STS = find_task("sts-b")
OWN = own_task("text", label="label")
GOOD = b'{"text": "good", "label": 1}\n'


def scores(*values: str) -> bytes:
    return "".join(f'{{"text_a": "a", "text_b": "b", "label": {value}}}\n' for value in values).encode()


ROWS = {  # name: (file, content, task, line, what it says)
    "unknown index": ("a.jsonl", GOOD + b'{"text": "x", "label": 2}', SST, 2, "label is unknown; got 2"),
    "unknown name": ("a.csv", b"text,label\na,positive\nb,posotive\n", SST, 3, "unknown; got 'posotive'"),
    "negative index": ("a.csv", b"text,label\na,-1\n", SST, 2, "unknown"),
    "fraction as class": ("a.csv", b"text,label\na,0.5\n", SST, 2, "not a class"),
    "fraction as own class": ("a.csv", b"text,label\na,1\nb,0.5\n", OWN, 3, "use a regression task"),
    "NaN class": ("a.jsonl", GOOD + b'{"text": "x", "label": NaN}', SST, 2, "not finite; got nan"),
    "infinite own class": ("a.jsonl", b'{"text": "x", "label": Infinity}', OWN, 1, "not finite"),
    "nan in a CSV": ("a.csv", b"text,label\na,nan\n", OWN, 2, "not finite"),
    "list as class": ("a.jsonl", b'{"text": "x", "label": [1]}', OWN, 1, "neither text nor a number"),
    "huge class": ("a.jsonl", b'{"text": "x", "label": 1' + b"0" * 400 + b"}", SST, 1, "integer of 1329 bits"),
    "NaN score": ("a.jsonl", scores("1.5", "NaN"), STS, 2, "not finite; got nan"),
    "infinite score": ("a.jsonl", scores("1.5", "2", "-Infinity"), STS, 3, "not finite"),
    "overflowing score": ("a.jsonl", scores("1" + "0" * 400), STS, 1, "not finite"),
    "score out of range": ("a.jsonl", scores("5.0", "5.01"), STS, 2, "out of range; got 5.01; labels are"),
    "negative score": ("a.jsonl", scores("-0.1"), STS, 1, "between 0 and 5"),
    "word as score": ("a.jsonl", scores('"high"'), STS, 1, "not a number"),
    "bool as score": ("a.jsonl", scores("true"), STS, 1, "not a number"),
    "underscored score": ("a.jsonl", scores('"1_0"'), STS, 1, "not a number"),
    "null label": ("a.jsonl", GOOD + b'{"text": "x", "label": null}', SST, 2, "label is missing"),
    "no label key": ("a.jsonl", GOOD * 2 + b'{"text": "x"}', SST, 3, "label is missing"),
    "blank label": ("a.csv", b"text,label\na,1\nb, \n", OWN, 3, "label is missing"),
    "no text key": ("a.jsonl", GOOD + b'{"label": 1}', SST, 2, "column 'text' is missing"),
    "null text": ("a.jsonl", b'{"text": null, "label": 1}', SST, 1, "column 'text' is missing"),
    "empty text": ("a.csv", b"text,label\na,1\n,0\n", SST, 3, "column 'text' is empty"),
    "white text": ("a.jsonl", GOOD + b'{"text": " \\u2003\\n", "label": 1}', SST, 2, "is empty"),
    "empty pair": ("a.jsonl", b'{"text_a": "a", "text_b": "", "label": 1}', STS, 1, "'text_b' is empty"),
    "number as text": ("a.jsonl", GOOD + b'{"text": 7, "label": 1}', SST, 2, "is not text; got 7"),
    "lone surrogate": ("a.jsonl", GOOD + b'{"text": "a\\ud800b", "label": 1}', SST, 2, "lone surrogate"),
    "NUL": ("a.jsonl", b'{"text": "a\\u0000b", "label": 1}', SST, 1, "NUL character"),
    "NUL in a CSV": ("a.csv", b"text,label\na,1\nb\0c,1\n", SST, 3, "NUL character"),
    "ragged CSV, short": ("a.csv", b"text,label\na,1\nb\n", SST, 3, "ragged; got '1 fields'"),
    "ragged CSV, long": ("a.csv", b'text,label\n"x\ny",1\na, b,1\n', SST, 4, "ragged; got '3 fields'"),
    "ragged TSV": ("a.tsv", b"text\tlabel\na\t1\na\tb\t1\n", SST, 3, "the header has 2 columns"),
    "unclosed quote": ("a.csv", b'text,label\na,1\n"b,1\nc,0\nd,1\n', SST, 3, "CSV row is broken"),
    "text behind a quote": ("a.csv", b'text,label\n"b" c,1\n', SST, 2, "CSV row is broken"),
    "column named twice": ("a.csv", b"text,text,label\na,b,1\n", SST, 1, "names a column twice"),
    "broken JSON": ("a.jsonl", GOOD + b'{"text": "x", "lab\n' + GOOD, SST, 2, "JSON is broken"),
    "two objects": ("a.jsonl", GOOD + GOOD.strip() + GOOD, SST, 2, "JSON is broken"),
    "key twice": ("a.jsonl", b'{"text": "x", "text": "y", "label": 1}', SST, 1, "a key appears twice"),
    "deep JSON": ("a.jsonl", GOOD + b"[" * 100_000, SST, 2, "JSON is broken"),
    "JSON array": ("a.json", b'[{"text": "x", "label": 1}]', SST, 1, "is a JSON array"),
    "JSON number": ("a.jsonl", GOOD + b"17\n", SST, 2, "not an object; got 17"),
    "Latin-1": ("a.csv", "text,label\na,1\ncafé,1\n".encode("latin-1"), SST, 3, "not UTF-8"),
    "UTF-16": ("a.csv", "text,label\na,1\n".encode("utf-16"), SST, 1, "not UTF-8"),
    "gzip line": ("a.jsonl.gz", gzip.compress(GOOD + b"{"), SST, 2, "JSON is broken"),
}
WHOLE = {  # name: (file, content, task, what it says)
    "missing column": ("a.csv", b"review,label\na,1\n", OWN, "no column 'text'; the columns are 'review', 'label'"),
    "missing label column": ("a.jsonl", b'{"text": "a"}', SST, "no column 'label'; the columns of line 1 are 'text'"),
    "missing pair": ("a.tsv", b"sentence1\tlabel\na\t1\n", STS, "no column 'text_b' or 'text_pair'"),
    "empty file": ("a.jsonl", b"", SST, "no rows"),
    "blank file": ("a.jsonl", b"\n\n", SST, "no rows"),
    "header only": ("a.csv", b"text,label\n", SST, "no rows"),
    "empty gzip": ("a.jsonl.gz", b"", SST, "is empty"),
    "wrong extension": ("a.xlsx", GOOD, SST, "unknown extension; files are .jsonl"),
    "no extension": ("data", GOOD, SST, "unknown extension"),
    "text file": ("a.docx", GOOD, SST, "unknown extension"),
    "plain text without labels": ("a.txt", GOOD, SST, "a .txt file has texts alone; use .csv or .jsonl"),
    "plain text for RACE": ("a.txt", GOOD, find_task("race"), "no column 'article'; the columns are 'text'"),
    "blank plain text": ("a.txt", b"\n \n", own_task("a"), "no column 'label'"),
    "not gzip": ("a.jsonl.gz", GOOD, SST, "is not a gzip file"),
    "secretly gzip": ("a.jsonl", gzip.compress(GOOD), SST, "is a gzip file"),
    "truncated gzip": ("a.jsonl.gz", gzip.compress(GOOD * 50)[:-12], SST, "the gzip file is damaged after line"),
    "damaged gzip": ("a.csv.gz", gzip.compress(b"text,label\na,1\n")[:-8] + b"12345678", SST, "is damaged"),
    "not Parquet": ("a.parquet", b"PAR1 nonsense", SST, "not a Parquet file"),
    "text as label": (
        "a.csv",
        b"label,text\n" + b"".join(b"x%d,y%d\n" % (i, i) for i in range(1001)),
        own_task("text"),
        "1,001 different values",
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_bad_row_is_named_in_one_line(case, tmp_path):
    name, content, task, line, message = ROWS[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        read_split(path, task)
    assert f"{path}, line {line}: " in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize("case", WHOLE)
def test_a_bad_file_is_named_in_one_line(case, tmp_path):
    name, content, task, message = WHOLE[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        read_split(path, task)
    assert str(path) in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_paths_that_are_no_files(tmp_path):
    for path, message in {
        tmp_path: "is a folder",
        tmp_path / "none.jsonl": "is not a file",
        tmp_path / ("x" * 300 + ".csv"): "is not a file",
    }.items():
        with pytest.raises(DataError, match=message) as error:
            read_split(path, SST)
        assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="write hub:stanfordnlp/imdb"):
        read_split("stanfordnlp/imdb", SST)
    with pytest.raises(DataError, match="NUL"):
        read_split("a\0.csv", SST)


def test_a_dev_label_that_training_does_not_know(tmp_path):
    (tmp_path / "train.csv").write_text("text,label\na,spam\nb,ham\n")
    (tmp_path / "dev.csv").write_text("text,label\na,ham\nb,Spam\n")
    with pytest.raises(DataError) as error:
        read_splits({"train": tmp_path / "train.csv", "dev": tmp_path / "dev.csv"}, OWN)
    assert "dev.csv, line 3: the label is unknown; got 'Spam'; labels are ham, spam" in str(error.value)


def test_a_dev_file_alone_does_not_define_classes(tmp_path):
    (tmp_path / "dev.csv").write_text("text,label\na,ham\nb,spam\n")
    with pytest.raises(DataError, match="learns its classes from the training data"):
        read_splits({"dev": tmp_path / "dev.csv"}, OWN)


def test_a_stream_yields_each_good_row_before_it_reads_the_next(tmp_path):
    """Oracle: what lies after the rows asked for is broken, and is not met before it is reached."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD + b"\n" + GOOD + b"{")
    rows = stream_rows(path, SST, labelled=True)
    assert next(rows) == DataRow(1, {"text": "good"}, 1)
    assert next(rows) == DataRow(3, {"text": "good"}, 1)
    with pytest.raises(DataError, match="line 4: the JSON is broken"):
        next(rows)


@pytest.mark.parametrize("labelled", [True, False])
def test_a_stream_has_the_rows_of_the_split(labelled, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\na,1\n"b\nc",0\n\nd,1\n')
    split = read_split(path, SST, labelled=labelled)
    rows = list(stream_rows(path, SST, labelled=labelled))
    assert [row.number for row in rows] == split.dataset["row"][:]
    assert [row.texts["text"] for row in rows] == split.dataset["text"][:]
    assert [row.label for row in rows] == (split.dataset["label"][:] if labelled else [None] * 3)


def test_an_empty_stream_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"\n")
    with pytest.raises(DataError, match="no rows"):
        list(stream_rows(tmp_path / "a.jsonl", SST))


# ---- labels ------------------------------------------------------------------------------


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


# ---- tables ------------------------------------------------------------------------------

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
