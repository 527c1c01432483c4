"""What `powerbert score` refuses: one line, exit code 2, and nothing half-written. Oracle: the folder as it was."""

from __future__ import annotations

import gzip
import io
import os
import socket

import pyarrow
import pytest
import torch
import zstandard
from models import tiny
from pyarrow import parquet
from scored import classifier, json_lines, run
from texts import tokenizer_for

import powerbert
from powerbert import errors

GOOD = b'{"text": "good"}\n' * 50
LONG = b"".join(b'{"text": "%s"}\n' % os.urandom(20).hex().encode() for _ in range(200))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return classifier(tmp_path_factory.mktemp("refusals") / "model")


def refused(capsys, *arguments) -> str:
    assert run(*arguments) == 2
    (line,) = [line for line in capsys.readouterr().err.strip().splitlines() if "powerbert: error: " in line]
    return line


def in_parquet(**columns) -> bytes:
    parquet.write_table(pyarrow.table(columns), sink := io.BytesIO())
    return sink.getvalue()


NOT_UTF_8 = pyarrow.StringArray.from_buffers(1, pyarrow.py_buffer(b"\0\0\0\0\1\0\0\0"), pyarrow.py_buffer(b"\xff"))
BEYOND = pyarrow.array([2**62], pyarrow.timestamp("us"))

RECORD = (
    b'{"settings": {}, "windows": 1000, "finished": false, '
    b'"counts": {"read": 5, "answered": 5, "skipped": 0, "recorded": 0}}'
)

FILES = {
    "unknown format": ("a.xml", GOOD, "unknown extension"),
    "no rows": ("a.jsonl", b"", "no rows"),
    "header alone": ("a.csv", b"text\n", "no rows"),
    "missing column": ("a.jsonl", b'{"review": "good"}\n', "no column 'text'; the columns of line 1 are 'review'"),
    "missing CSV column": ("a.csv", b"review\ngood\n", "name one with --text"),
    "not text": ("a.jsonl", b'{"text": 5}\n', "is not text; got 5"),
    "truncated gzip": ("a.jsonl.gz", gzip.compress(LONG)[:-500], "damaged"),
    "not gzip": ("a.jsonl.gz", GOOD, "is not a gzip file"),
    "gzip by another name": ("a.jsonl", gzip.compress(GOOD), "is a gzip file"),
    "truncated zstd": ("a.jsonl.zst", zstandard.compress(LONG)[:-500], "damaged"),
    "not zstd": ("a.csv.zst", GOOD, "is not a zstd file"),
    "not UTF-8": ("a.jsonl", b'{"text": "\xff"}\n', "not UTF-8"),
    "NaN": ("a.jsonl", b'{"text": "good", "x": NaN}\n', "NaN is not JSON"),
    "not Parquet": ("a.parquet", GOOD, "not a Parquet file"),
    "broken quotes": ("a.csv", b'text\n"good\n', "the CSV row is broken"),
    "ragged": ("a.csv", b"text,x\ngood,1,2\n", "ragged"),
    "not UTF-8 in Parquet": ("a.parquet", in_parquet(text=NOT_UTF_8), "row 1: the text cannot be read"),
    "a time beyond Python": ("a.parquet", in_parquet(text=["good"], x=BEYOND), "date value out of range"),
    "bytes": ("a.parquet", in_parquet(text=["good"], x=[b"x"]), "write to a name that ends in .parquet"),
    "a JSON array": (
        "a.json",
        b'[\n{"text": "good"}\n]\n',
        "the file is a JSON array; a .jsonl file has one object per line",
    ),
    "label is there": ("a.jsonl", b'{"text": "good", "label": 1}\n', "--prefix predicted_"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_one_line_and_leaves_what_was_answered(model, tmp_path, capsys, name):
    file, content, expected = FILES[name]
    (tmp_path / file).write_bytes(content)
    assert expected in refused(capsys, "score", tmp_path / file, tmp_path / "out.jsonl", "--model", model)
    answered = ["out.jsonl.partial"] if name == "truncated gzip" else []
    assert sorted(os.listdir(tmp_path)) == sorted([file, *answered])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere.jsonl", "o.jsonl"], "does not exist"),
        (["nothing-*.jsonl", "o.jsonl"], "no file matches"),
        ([".", "o.jsonl"], "is a folder"),
        (["in.jsonl", "in.jsonl"], "OUT and IN are the same"),
        (["*.jsonl", "in.jsonl"], "exists"),
        (["in.jsonl", "there.jsonl"], "there.jsonl exists"),
        (["in.jsonl", "o.xml"], "OUT has an unknown extension"),
        (["in.jsonl", "o.txt"], "OUT has an unknown extension"),
        (["in.jsonl", "no/where/o.jsonl"], "does not exist"),
        (["in.jsonl", "/proc/o.jsonl"], "cannot be written"),
        (["in.jsonl"], "where do the answers go?"),
        ([], "what is to be answered?"),
        (["in.jsonl", "o.jsonl", "--data", "in.jsonl"], "IN and --data are one thing"),
        (["in.jsonl", "-", "--json", "-"], "standard output"),
        (["in.jsonl", "-", "--format", "parquet"], "Parquet is not written to a stream"),
        (["-", "o.jsonl", "--input-format", "parquet"], "Parquet is not read from standard input"),
        (["in.jsonl", "o.jsonl", "--format", "xml"], "unknown --format"),
        (["in.jsonl", "o.jsonl", "--on-error", "ignore"], "one of fail, skip, record"),
        (["in.jsonl", "o.jsonl", "--window", "0"], "--window"),
        (["in.jsonl", "o.jsonl", "--window", "9" * 25], "--window is too large"),
        (["in.jsonl", "o.jsonl", "--threads", "99999"], "--threads is out of range"),
        (["in.jsonl", "o.jsonl", "--prefix", "a\tb"], "--prefix is no part of a name"),
        (["in.jsonl", "o" * 246 + ".jsonl"], "name too long"),
        (["-", "o.jsonl", "--rows", "2"], "standard input is answered as a whole"),
        (["o.jsonl.partial/*", "o.jsonl"], "no file matches"),
        (["in.jsonl", "o.jsonl", "--batch-size", "0"], "--batch-size"),
        (["in.jsonl", "o.jsonl", "--max-length", "-1"], "--max-length"),
        (["in.jsonl", "o.jsonl", "--ray=somewhere"], "--ray is not an address"),
        (["-", "o.jsonl", "--ray"], "--ray reads files"),
        (["in.jsonl", "o.jsonl", "--rows", "2", "--ray"], "--ray reads files"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_what_cannot_be_asked_for_is_one_line_and_leaves_nothing(
    model, tmp_path, monkeypatch, capsys, arguments, expected
):
    monkeypatch.chdir(tmp_path)
    for name in ("in.jsonl", "there.jsonl"):
        (tmp_path / name).write_bytes(GOOD)
    assert expected in refused(capsys, "score", *arguments, "--model", model)
    assert sorted(os.listdir(tmp_path)) == ["in.jsonl", "there.jsonl"]
    assert (tmp_path / "there.jsonl").read_bytes() == GOOD


def test_out_among_the_files_of_a_pattern(model, tmp_path, capsys):
    """Also of a pattern that matches what a stopped run has left: those are no inputs."""
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(GOOD)
    asked = [str(tmp_path / "**"), tmp_path / "out.jsonl", "--model", model]
    (tmp_path / "out.jsonl.partial").mkdir()
    (tmp_path / "out.jsonl.partial" / "00000000.part").write_bytes(GOOD)
    assert run("score", *asked, "--input-format", "jsonl") == 0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 100


@pytest.mark.parametrize("head", ["Model", "ForMultipleChoice", "ForTokenClassification"])
def test_a_model_that_is_no_classifier(tmp_path, capsys, head):
    powerbert.save(tiny("bert", head), tokenizer_for(), tmp_path / "model")
    (tmp_path / "in.jsonl").write_bytes(GOOD)
    asked = ["score", tmp_path / "in.jsonl", tmp_path / "out.jsonl", "--model", tmp_path / "model"]
    assert "does not answer texts" in refused(capsys, *asked)
    assert sorted(os.listdir(tmp_path)) == ["in.jsonl", "model"]


def test_a_stopped_run_is_no_input_and_its_record_is_read_strictly(model, tmp_path, capsys):
    (tmp_path / "in.jsonl").write_bytes(GOOD)
    (tmp_path / "out.jsonl.partial").mkdir()
    (tmp_path / "out.jsonl.partial" / "a.jsonl").write_bytes(GOOD)
    asked = [tmp_path / "out.jsonl", "--model", model]
    assert "a stopped run has left" in refused(capsys, "score", tmp_path / "out.jsonl.partial" / "*", *asked)
    for content in (b"5", b"{}", b'{"settings": 5}', RECORD.replace(b"1000", b'"a"'), RECORD):
        (tmp_path / "out.jsonl.partial" / "record.json").write_bytes(content)
        assert "record.json cannot be read" in refused(capsys, "score", tmp_path / "in.jsonl", *asked)


def test_an_answer_that_is_no_number_is_a_fault_of_its_row(tmp_path, capsys):
    model = tiny("bert")
    with torch.no_grad():
        model.classifier.weight.fill_(3e38)  # finite, as a folder's weights have to be; its sums are not
    powerbert.save(model, tokenizer_for(), tmp_path / "model")
    (tmp_path / "in.jsonl").write_bytes(GOOD[:17])
    asked = ["score", tmp_path / "in.jsonl", tmp_path / "out.csv", "--model", tmp_path / "model"]
    assert "line 1: the model's answer is not a number" in refused(capsys, *asked)
    for out in (tmp_path / "out.csv", "-"):
        skipping = ["score", tmp_path / "in.jsonl", out, *asked[3:], "--on-error", "skip"]
        assert "no row could be answered" in refused(capsys, *skipping)
    assert run(*asked, "--on-error", "record") == 0
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("good,,,")


def test_parquet_files_of_other_columns_and_a_row_of_another_type(model, tmp_path, capsys):
    for name, column in (("a", [1]), ("b", ["one"])):
        parquet.write_table(pyarrow.table({"text": ["good"], "x": column}), tmp_path / f"{name}.parquet")
    asked = ["--model", model, "--window", "1"]
    found = refused(capsys, "score", tmp_path / "*.parquet", tmp_path / "out.parquet", *asked)
    assert "b.parquet, row 1: the columns have other types" in found
    json_lines(tmp_path / "in.jsonl", [{"text": "good", "x": 1}, {"text": "bad", "x": "one"}])
    found = refused(capsys, "score", tmp_path / "in.jsonl", tmp_path / "two.parquet", *asked)
    assert "in.jsonl, line 2: column 'x' is of no one type of Parquet" in found


def test_nobody_at_the_address_and_no_ray_at_all(model, tmp_path, monkeypatch, capsys):
    (tmp_path / "in.jsonl").write_bytes(GOOD)
    with socket.socket() as free:  # a port that nobody listens at
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    asked = ["score", tmp_path / "in.jsonl", tmp_path / "out.jsonl", "--model", model, "--ray"]
    assert f"no Ray cluster answers at {address}" in refused(capsys, *asked, address)
    monkeypatch.setattr(errors, "find_spec", lambda name: None if name == "ray" else name)
    assert 'pip install "powerbert[ray]"' in refused(capsys, *asked)
    assert os.listdir(tmp_path) == ["in.jsonl"]
