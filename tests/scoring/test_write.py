"""Rows out. Oracle: json, csv, pandas and pyarrow read back what was written; the whole equals what was never cut."""

from __future__ import annotations

import csv
import io
import json
import math
import tempfile
from pathlib import Path

import pandas
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from powerbert.errors import DataError
from powerbert.scoring.rows import ArrowRow, InputFiles
from powerbert.scoring.write import FORMS
from powerbert.tasks.files import RawRow
from powerbert.tasks.registry import own_task

ADDED = {"label": str, "score": float}
ANSWER = {"label": "yes", "score": 0.5}

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\t\r\n"))
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
deep = st.recursive(
    scalars | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)
names = st.lists(plain.filter(lambda name: name.strip() and name not in ADDED), min_size=1, max_size=3, unique=True)


def tables(columns, cells):
    """Rows of these columns, in their order."""
    rows = st.lists(st.tuples(*(cells for _ in columns)), min_size=1, max_size=5)
    return rows.map(lambda drawn: [dict(zip(columns, row, strict=True)) for row in drawn])


def raw(values, number=1) -> RawRow:
    return RawRow(number, values, f"a.jsonl, line {number}")


def written(name, parts, target, *, resumed=()) -> bytes:
    """The rows of each part encoded, with a new format from each of the numbers in `resumed` on, and joined."""
    with tempfile.TemporaryDirectory() as folder:
        form, paths = FORMS[name](ADDED), []
        for number, rows in enumerate(parts):
            if number in resumed:
                form = FORMS[name](ADDED)
                form.resume(paths[0])
            paths.append(Path(folder) / f"{number}")
            paths[-1].write_bytes(form.encode([(raw(row), ANSWER) for row in rows]))
        form.join(paths, Path(folder) / target)
        return (Path(folder) / target).read_bytes()


@settings(max_examples=25)
@given(st.lists(st.dictionaries(st.text().filter(lambda name: name not in ADDED), deep), min_size=1, max_size=5))
def test_json_lines_come_back_as_they_were(rows):
    found = [json.loads(line) for line in written("jsonl", [rows], "a.jsonl").decode().split("\n")[:-1]]
    assert found == [row | ANSWER for row in rows]
    assert [list(row) for row in found] == [[*row, *ANSWER] for row in rows]


@settings(max_examples=25)
@given(names, st.data())
def test_csv_comes_back_as_it_was(columns, data):
    rows = data.draw(tables(columns, texts))
    content = written("csv", [rows], "a.csv")
    found = list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True))
    assert found == [[*columns, *ADDED], *([*row.values(), "yes", "0.5"] for row in rows)]
    with tempfile.TemporaryDirectory() as folder:  # and to our own reader, whose lines end at a newline alone
        path = Path(folder) / "a.csv"
        path.write_bytes(content)
        own = [dict(row.raw.values) for window in InputFiles((path,), own_task(columns[0])).windows() for row in window]
    assert own == [row | {"label": "yes", "score": "0.5"} for row in rows]


@settings(max_examples=25)
@given(names, st.data())
def test_tsv_comes_back_as_it_was(columns, data):
    rows = data.draw(tables(columns, plain))
    found = [line.split("\t") for line in written("tsv", [rows], "a.tsv").decode().split("\n")[:-1]]
    assert found == [[*columns, *ADDED], *([*row.values(), "yes", "0.5"] for row in rows)]


@settings(max_examples=25)
@given(names, st.data())
def test_columns_of_one_type_come_back_from_parquet(columns, data):
    kinds = st.sampled_from([texts, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False)])
    values = {name: data.draw(kinds) | st.none() for name in columns}
    rows = data.draw(st.lists(st.fixed_dictionaries(values), min_size=1, max_size=5))
    found = parquet.read_table(io.BytesIO(written("parquet", [rows], "a.parquet"))).to_pylist()
    assert found == [row | ANSWER for row in rows]


@pytest.mark.parametrize("target", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.csv", "a.csv.gz", "a.tsv", "a.parquet"])
def test_a_resumed_run_writes_the_same_bytes(target):
    parts = [[{"text": f"{i} good", "n": str(i)} for i in range(at, at + 3)] for at in range(0, 15, 3)]
    name = target.split(".")[1]
    whole = written(name, parts, target)
    assert written(name, parts, target, resumed=(1, 4)) == whole
    assert written(name, parts, target, resumed=(3,)) == whole


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_pandas_reads_all_of_a_packed_file(suffix, tmp_path):
    """One frame: pandas reads no further than the first of several."""
    path = tmp_path / f"a.csv{suffix}"
    path.write_bytes(written("csv", [[{"n": i}] for i in range(9)], path.name))
    assert pandas.read_csv(path)["n"].tolist() == list(range(9))


def test_json_says_null_for_nan_and_text_for_what_it_has_no_type_for():
    batch = pyarrow.table(
        {"x": [math.nan], "t": pyarrow.array([0], pyarrow.timestamp("ns")), "deep": [[math.inf, 1.0]]}
    ).to_batches()[0]
    row = RawRow(1, ArrowRow(batch, 0, ("x", "t", "deep")), "a.parquet, row 1")
    found = json.loads(FORMS["jsonl"](ADDED).encode([(row, ANSWER)]))
    assert found == {"x": None, "t": "1970-01-01T00:00:00", "deep": [None, 1.0]} | ANSWER


def test_values_that_are_no_text_are_json_in_a_cell():
    rows = [{"a": {"b": [1, "é"]}, "c": True, "d": None, "e": 1.0}]
    assert written("csv", [rows], "a.csv").decode() == 'a,c,d,e,label,score\n"{""b"": [1, ""é""]}",true,,1.0,yes,0.5\n'
    found = parquet.read_table(io.BytesIO(written("parquet", [rows], "a.parquet"))).to_pylist()
    assert found == [{"a": '{"b": [1, "é"]}', "c": True, "d": None, "e": 1.0} | ANSWER]


@pytest.mark.parametrize(
    ("name", "parts", "says"),
    [
        ("csv", [[{"a": "x"}], [{"b": "x"}]], "there is a new column 'b'"),
        ("parquet", [[{"a": 1}], [{"a": "x"}]], "column 'a' is of no one type of Parquet"),
        ("parquet", [[{"a": 1}, {"a": "x"}]], "column 'a' is of no one type of Parquet"),
        ("tsv", [[{"a": "x\ty"}]], "a TSV field holds no tab"),
        ("csv", [[{"a": "\ud800"}]], "line 1: the row cannot be written; .*UnicodeEncodeError"),
        ("parquet", [[{"\ud800": 1}]], "line 1: the rows cannot be written as Parquet"),
        ("parquet", [[{"a": 10**30}]], "column 'a' is of no one type of Parquet"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(name, parts, says):
    with pytest.raises(DataError, match=says):
        written(name, parts, f"a.{name}")


@pytest.mark.parametrize(
    ("first", "later", "kept"),
    [(3, 3.75, None), (3, True, None), (3, "4", None), (3, 4.0, 4), (2.5, 3, 3.0), (3, None, None)],
)
def test_a_later_window_changes_no_number_to_fit_the_first(first, later, kept):
    form = FORMS["parquet"](ADDED)
    form.encode([(raw({"price": first}), ANSWER)])
    if later is not None and kept is None:
        with pytest.raises(DataError, match="column 'price' is of no one type"):
            form.encode([(raw({"price": later}), ANSWER)])
    else:
        table = parquet.read_table(io.BytesIO(form.encode([(raw({"price": later}), ANSWER)])))
        assert table["price"].to_pylist() == [kept]


def test_a_time_that_python_would_cut_is_refused():
    batch = pyarrow.record_batch({"at": pyarrow.array([45296123456789, 45296123456000], pyarrow.time64("ns"))})
    with pytest.raises(ValueError, match="not that fine"):
        ArrowRow(batch, 0, ("at",))["at"]
    assert str(ArrowRow(batch, 1, ("at",))["at"]) == "12:34:56.123456"


def test_rows_without_a_column_of_their_own_are_rows():
    """As where no line of a file could be read, and all are recorded."""
    found = parquet.read_table(io.BytesIO(written("parquet", [[{}, {}]], "a.parquet")))
    assert found.to_pylist() == [ANSWER, ANSWER]


def test_parquet_keeps_every_type_of_parquet_and_what_its_schema_says():
    """Also those that Arrow cannot take single rows of. Oracle: the rows themselves."""
    kinds = {"view": pyarrow.string_view(), "bytes": pyarrow.binary_view(), "list": pyarrow.list_view(pyarrow.int64())}
    values = {"view": ["a", None, "c", "d"], "bytes": [b"\xff", b"", None, b"d"], "list": [[1], [], None, [2, 3]]}
    fields = [pyarrow.field(name, kind, metadata={"own": name}) for name, kind in kinds.items()]
    batch = pyarrow.table(values, schema=pyarrow.schema(fields)).to_batches()[0]
    rows = [(RawRow(i, ArrowRow(batch, i, tuple(kinds)), f"row {i}"), ANSWER) for i in (0, 2, 3)]
    found = parquet.read_table(io.BytesIO(FORMS["parquet"](ADDED).encode(rows)))
    assert found.to_pylist() == [{name: values[name][i] for name in kinds} | ANSWER for i in (0, 2, 3)]
    assert found.schema.field("view").metadata[b"own"] == b"view"
    assert found.schema.types[:3] == list(kinds.values())
