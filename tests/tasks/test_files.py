"""What is written comes back: JSONL, CSV, TSV, Parquet and datasets objects, plain and gzip."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tempfile
from pathlib import Path

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerbert.errors import DataError
from powerbert.tasks import files
from powerbert.tasks.files import has_pairs
from powerbert.tasks.readers import read_split, stream_rows
from powerbert.tasks.registry import own_task

BOM = b"\xef\xbb\xbf"
TASK = own_task("text", label="label", labels=("no", "yes"))

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip)
lines = texts.filter(lambda text: not set("\t\n\r") & set(text))
tables = st.lists(st.tuples(texts, st.integers(0, 1)), min_size=1, max_size=8)
line_tables = st.lists(st.tuples(lines, st.integers(0, 1)), min_size=1, max_size=8)


def read(content: bytes, name: str, task=TASK):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return read_split(path, task)


def rows(split) -> list[tuple]:
    return list(zip(split.dataset["text"], split.dataset["label"], strict=True))


@given(tables, st.booleans(), st.booleans(), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", ".gz"]))
def test_jsonl_round_trips(table, ascii_only, bom, end, zipped):
    written = "".join(
        json.dumps({"text": text, "label": label}, ensure_ascii=ascii_only) + end for text, label in table
    )
    split = read(BOM * bom + written.encode(), f"a.jsonl{zipped}")
    assert rows(split) == table
    assert split.dataset["row"] == list(range(1, len(table) + 1))


@given(tables, st.booleans(), st.booleans(), st.sampled_from(["", ".gz"]))
def test_csv_round_trips_with_quotes_commas_and_newlines(table, bom, quote_all, zipped):
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL)
    writer.writerows([("text", "label"), *table])
    split = read(BOM * bom + stream.getvalue().encode(), f"a.csv{zipped}")
    assert rows(split) == table
    starts, line = [], 2
    for text, _ in table:
        starts.append(line)
        line += 1 + text.count("\n")
    assert split.dataset["row"] == starts


@given(line_tables, st.booleans(), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", ".gz"]))
def test_tsv_round_trips_and_a_quote_is_just_a_character(table, bom, end, zipped):
    written = end.join(["label\ttext", *(f"{label}\t{text}" for text, label in table)])
    assert rows(read(BOM * bom + written.encode(), f"a.tsv{zipped}")) == table


def test_what_pandas_writes_is_read(tmp_path):
    frame = pandas.DataFrame({"text": ['say "hi"', "a,b\nc", " x "], "label": pandas.Categorical([1, 0, 1])})
    frame.to_csv(tmp_path / "a.csv")  # with its index as an unnamed column
    frame.to_parquet(tmp_path / "a.parquet")
    expected = [('say "hi"', 1), ("a,b\nc", 0), (" x ", 1)]
    assert rows(read_split(tmp_path / "a.csv", TASK)) == expected
    assert rows(read_split(tmp_path / "a.parquet", TASK)) == expected


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv"])
def test_a_text_beyond_every_parsers_limit_is_read(name):
    text = "word " * 40_000  # 200,000 characters; csv stops at 131,072 by itself
    content = json.dumps({"text": text, "label": 1}) if name == "a.jsonl" else f"text,label\n{text},1\n"
    content = content.replace(",", "\t") if name == "a.tsv" else content
    limit = csv.field_size_limit()
    assert rows(read(content.encode(), name)) == [(text, 1)]
    assert csv.field_size_limit() == limit


def test_a_quote_that_is_never_closed_does_not_read_the_whole_file(monkeypatch):
    monkeypatch.setattr(files, "LONGEST_FIELD", 1000)
    with pytest.raises(DataError, match="line 2: the CSV row is broken; got 'field larger than field limit"):
        read(b'text,label\n"never closed,1\n' + b"word\n" * 1000, "a.csv")


def test_blank_lines_are_skipped_and_told():
    split = read(b'{"text": "a", "label": 0}\n\n \n{"text": "b", "label": 1}\n\n', "a.jsonl")
    assert split.dataset["row"] == [1, 4]
    assert split.notes == ("2 blank lines skipped, the first at line 2",)
    assert split.skipped == 2
    other = read(b"text,label\na,0\n\nb,1\n\n", "a.csv")
    assert other.notes == ("1 blank lines skipped, the first at line 3",)
    assert other.skipped == 1


def test_a_quoted_tsv_is_told():
    split = read(b'text\tlabel\nplain\t1\n"say ""hi"""\t0\n', "a.tsv")
    assert split.dataset["text"][1] == '"say ""hi"""'
    assert "look quoted, the first at line 3" in split.notes[0]
    assert split.skipped == 0  # looked quoted, and was read


def test_the_source_is_known_and_survives_a_part(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,0\nb,1\n")
    split = read_split(str(path), TASK).part(2, seed=0)
    assert split.source == str(path)
    assert split.unit == "line"
    assert sorted(split.dataset["row"]) == [2, 3]


@given(st.lists(lines, min_size=1, max_size=8), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_plain_text_has_one_text_per_line_whatever_the_columns_are_called(table, bom, end):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.txt"
        path.write_bytes(BOM * bom + "".join(text + end for text in table).encode())
        read = list(stream_rows(path, own_task("review")))
        assert not has_pairs(path)
    assert [row.texts for row in read] == [{"text": text} for text in table]
    assert [row.number for row in read] == list(range(1, len(table) + 1))


def test_a_tab_separates_the_two_texts_of_a_pair(tmp_path):
    pairs, single = own_task("a", "b"), own_task("a")
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b'\nWho?\tShe did.\n \n"Why"?\tSo.\n'))
    split = read_split(path, pairs, labelled=False)
    assert split.dataset["text"][:] == ["Who?", '"Why"?']
    assert split.dataset["text_pair"][:] == ["She did.", "So."]
    assert split.dataset["row"][:] == [2, 4]
    assert split.notes == ("2 blank lines skipped, the first at line 1",)
    assert has_pairs(path)
    for content, task, message in [
        (b"a\tb\na b\n", pairs, "line 2: the line is not two texts with one tab between them; got '0 tabs'"),
        (b"a\tb\tc\n", pairs, "line 1: the line is not two texts with one tab between them; got '2 tabs'"),
        (b"a\nb\tc\n", single, "line 2: the line is not one text without a tab; got '1 tabs'"),
        (b"a\t \n", pairs, "line 1: column 'text_pair' is empty"),
    ]:
        path.write_bytes(gzip.compress(content))
        with pytest.raises(DataError) as error:
            list(stream_rows(path, task))
        assert f"{path}, {message}" in str(error.value)
