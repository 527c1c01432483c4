"""`powerbert bench` through the real command line, on a tiny model in torch and stock transformers."""

from __future__ import annotations

import json

import pytest
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.cli.main import main

TEXTS = ["good film", "the plot is dull and the film is bad", "very good", "it is a film and it is good"] * 3
RETENTION = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "model"
    powerbert.save(powerbert.apply(tiny("bert"), RETENTION), tokenizer_for(), folder)
    (folder.parent / "texts.txt").write_text("\n".join(TEXTS) + "\n\n")
    return folder


def test_the_papers_protocol_needs_a_model_that_eliminates(folder, tmp_path, capsys):
    powerbert.save(tiny("bert"), tokenizer_for(), tmp_path / "whole")
    asked = ["--model", tmp_path / "whole", "--texts", folder.parent / "texts.txt", "--engines", "torch"]
    assert run("bench", *asked, "--paper", "2") == 2
    assert "--paper compares with a model that eliminates" in capsys.readouterr().err


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def test_the_command_writes_table_json_and_picture(folder, tmp_path, capsys, monkeypatch):
    asked = ["--model", folder, "--texts", folder.parent / "texts.txt", "--engines", "stock,torch"]
    asked += ["--batches", "4", "--rounds", "2", "--max-length", "16", "--curves", "--paper", "2"]
    monkeypatch.setenv("COLUMNS", "80")
    assert run("bench", *asked, "--json", tmp_path / "b.json", "--plot", tmp_path / "b.png") == 0
    figures = json.loads((tmp_path / "b.json").read_text())
    assert figures["texts"] == len(TEXTS)
    assert figures["headline"][0]["against"] == "best full arm in fp32"
    assert (figures["paper"]["batch"], figures["paper"]["length"], figures["paper"]["runs"]) == (128, 16, 2)
    assert {point["length"] for point in figures["by_length"]} == {32}  # the tiny model reads no more
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr()
    assert "times as fast" in shown.out
    assert "…" not in shown.out
    for what in (
        "3 arms on ",
        "in all, if it is quiet",
        "arms in 2 rounds of 12 texts: about ",
        "cost against length and batch size: about ",
    ):
        assert what in shown.err


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--engines", "tensorrt"], "unknown engine"),
        (["--precisions", "fp8"], "no engine has this precision"),
        (["--feeds", "random"], "unknown feed"),
        (["--batches", "0"], "--batches"),
        (["--rounds", "0"], "--rounds"),
        (["--max-length", "0"], "--max-length is too small"),
        (["--texts", "nowhere.txt"], "--texts cannot be read"),
        (["--data", "texts.csv"], "not both"),
        (["--json", "nowhere/b.json"], "--json"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_measured(flags, expected, folder, capsys):
    assert run("bench", "--model", folder, "--texts", folder.parent / "texts.txt", *flags) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert expected in told[0]


def test_a_default_run_has_few_arms_and_takes_its_texts_from_a_column_too(folder, tmp_path):
    """Batches of 1 and 32 and the best feed of each engine; a thorough one has them all."""
    (tmp_path / "texts.csv").write_text("review,stars\n" + "".join(f"{text},1\n" for text in TEXTS))
    asked = ["bench", "--model", folder, "--engines", "stock,torch", "--json", tmp_path / "b.json"]
    assert run(*asked, "--data", tmp_path / "texts.csv", "--text", "review", "--rounds", "1") == 0
    figures = json.loads((tmp_path / "b.json").read_text())
    assert figures["texts"] == len(TEXTS)
    assert {(arm["engine"], arm["feed"], arm["batch"]) for arm in figures["arms"]} == {
        ("stock", "dynamic", 1), ("stock", "dynamic", 32), ("torch", "packed", 1), ("torch", "packed", 32),
    }  # fmt: skip
    assert {arm["model"] for arm in figures["arms"]} == {"full", "eliminated"}
    assert run(*asked, "--texts", folder.parent / "texts.txt", "--rounds", "1", "--thorough") == 0
    thorough = json.loads((tmp_path / "b.json").read_text())["arms"]
    assert {arm["feed"] for arm in thorough} == {"fixed", "dynamic", "sorted", "packed"}
    assert {arm["batch"] for arm in thorough} == {1, 8, 32}
    assert {arm["model"] for arm in thorough} == {"full", "eliminated", "truncated"}
    assert {arm["extra_memory_mb"] is None for arm in figures["arms"]} == {True}
    assert {arm["extra_memory_mb"] is None for arm in thorough} == {False}
