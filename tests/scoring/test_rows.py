"""Rows in. Oracle: the standard library's and pyarrow's own readers; the window sizes written out by hand."""

from __future__ import annotations

import gzip
import json

import pyarrow
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from scored import json_lines

from powerbert.errors import DataError
from powerbert.scoring import rows as module
from powerbert.scoring.rows import InputFiles, find_inputs
from powerbert.tasks.files import RawRow
from powerbert.tasks.registry import own_task

TASK = own_task("text")


def read(inputs):
    return [row for window in inputs.windows() for row in window]


def test_every_packing_gives_the_same_rows_with_all_columns(tmp_path):
    lines = b"".join(json.dumps({"text": f"good {i}", "n": i, "deep": {"a": [i]}}).encode() + b"\n" for i in range(30))
    two = zstandard.compress(lines[: lines.index(b"\n") + 1]) + zstandard.compress(lines[lines.index(b"\n") + 1 :])
    contents = {"a.jsonl": lines, "a.jsonl.gz": gzip.compress(lines), "a.jsonl.zst": zstandard.compress(lines)}
    for name, content in (contents | {"two.jsonl.zst": two}).items():
        (tmp_path / name).write_bytes(content)
        inputs = InputFiles((tmp_path / name,), TASK)
        assert [dict(row.raw.values) for row in read(inputs)] == list(map(json.loads, lines.splitlines()))
        assert inputs.about() == 30


def test_parquet_rows_are_read_lazily_with_all_columns(tmp_path):
    table = pyarrow.table({"text": [f"good {i}" for i in range(2500)], "n": range(2500), "deep": [[{"a": 1}]] * 2500})
    parquet.write_table(table, tmp_path / "a.parquet")
    inputs = InputFiles((tmp_path / "a.parquet",), TASK)
    found = read(inputs)
    assert [dict(row.raw.values) for row in found] == table.to_pylist()
    assert found[0].raw.values.keys() == {"text", "n", "deep"}
    assert len(found[0].raw.values) == 3
    assert "n" in found[0].raw.values
    assert "m" not in found[0].raw.values
    assert inputs.about() == 2500


@given(st.integers(1, 200), st.integers(1, 40), st.integers(0, 9))
def test_windows_are_the_same_from_wherever_they_begin(count, window, done):
    def rows():
        return (module.InputRow(RawRow(i, {}, ""), {"text": "x" * (i % 7)}) for i in range(count))

    whole = list(module.in_windows(rows(), window))
    assert [row.raw.number for each in whole for row in each] == list(range(count))
    assert len(whole[0]) == min(count, max(1, window // 16))
    assert max(map(len, whole)) <= window
    assert list(module.in_windows(rows(), window, done)) == whole[done:]


def test_a_window_ends_where_it_is_heavy_by_its_text_or_by_what_is_beside(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_HEAVIEST", 100)
    rows = [{"text": "x" * 60}, {"text": "x" * 60}, {"text": "x", "y": "y" * 900}, {"text": "x"}, {"text": "x"}]
    inputs = InputFiles((json_lines(tmp_path / "a.jsonl", rows),), TASK, window=16 * 16)
    assert [len(window) for window in inputs.windows()] == [2, 1, 2]


def test_rows_at_fault_stay_in_their_place(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'n,text\n1,good\n2\n3,"bad\n\xff"\n4,dull\n5,\n')
    found = read(InputFiles((tmp_path / "a.csv",), TASK))
    assert [row.raw.number for row in found] == [2, 3, 4, 6, 7]
    assert [row.fault is None for row in found] == [True, False, False, True, False]
    for row, expected in ((found[1], "ragged"), (found[2], "line 5: not UTF-8"), (found[4], "is empty")):
        assert expected in str(row.fault)
    cells = [dict(row.raw.values) for row in found[1:3]]
    assert cells == [{"n": "2", "text": None}, {"n": None, "text": None}]  # all columns, with what there is


def test_a_number_that_json_holds_and_no_float_does_is_a_fault(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "good", "x": 1e400}\n{"text": "good", "x": 1e300}\n')
    first, second = read(InputFiles((tmp_path / "a.jsonl",), TASK))
    assert "1e400 is too large" in str(first.fault)
    assert second.raw.values["x"] == 1e300


def test_files_by_name_and_what_they_may_not_be(tmp_path):
    for name in ("b.jsonl", "a.jsonl", "c.csv"):
        (tmp_path / name).write_bytes(b"")
    assert [path.name for path in find_inputs(f"{tmp_path}/*.jsonl")] == ["a.jsonl", "b.jsonl"]
    assert find_inputs("-") == (module.PIPED,)
    (tmp_path / "odd[1].jsonl").write_bytes(b"")
    assert [path.name for path in find_inputs(f"{tmp_path}/odd[1].jsonl")] == ["odd[1].jsonl"]
    with pytest.raises(DataError, match=r"several formats; got 'jsonl, csv'"):
        InputFiles(find_inputs(f"{tmp_path}/*.*"), TASK)


def test_a_file_is_known_again_until_it_changes(tmp_path):
    inputs = InputFiles((json_lines(tmp_path / "a.jsonl", [{"text": "good"}]),), TASK)
    before = inputs.known_again()
    assert inputs.known_again() == before
    json_lines(tmp_path / "a.jsonl", [{"text": "evil"}])
    assert inputs.known_again() != before
