"""`powerbert bench` on a tiny model in torch and stock transformers, and `doctor` with the real probes once."""

from __future__ import annotations

import json

import pytest
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.cli import measure
from powerbert.cli.flags import BenchFlags, Columns
from powerbert.cli.main import main
from powerbert.machine import verdicts as probing
from powerbert.machine.probes import TRAINING
from powerbert.machine.verdicts import CAPPED, CAPS, CRASHES, ISA, MISSING, PAIRS, WORKS, Verdict
from powerbert.modeling.limits import RUN

TEXTS = ["good film", "the plot is dull and the film is bad", "very good", "it is a film and it is good"] * 3
RETENTION = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2))


FOUND = {
    ("torch", "fp32"): Verdict("torch", "fp32", WORKS, 185.0, 1.0),
    ("torch", "bf16"): Verdict("torch", "bf16", CAPPED, 900.0, 4.0, CAPS[0], f"dies without {ISA}={CAPS[0]}"),
    ("onnx", "fp32"): Verdict("onnx", "fp32", WORKS, 120.0, 1.0),
    ("onnx", "int8"): Verdict("onnx", "int8", WORKS, 90.0, 0.75),
    ("openvino", "fp32"): Verdict("openvino", "fp32", MISSING, detail='pip install "powerbert[openvino]"'),
    ("openvino", "int8"): Verdict("openvino", "int8", WORKS, 500.0, 2.5),
    ("openvino", "bf16"): Verdict("openvino", "bf16", CRASHES, detail="died with SIGILL"),
    ("openvino", "int8+bf16"): Verdict("openvino", "int8+bf16", WORKS, 600.0, 3.0),
}
"""A machine as no machine is: one of every kind."""


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


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


def test_texts_are_cut_where_the_model_was_trained_to_cut_them(tmp_path, folder):
    model, tokenizer = powerbert.load(folder)
    powerbert.save(model, tokenizer, tmp_path / "trained", extra={RUN: b'{"result": {"max_length": 9}}'})
    found = tmp_path / "b.json"
    asked = ["--model", tmp_path / "trained", "--texts", folder.parent / "texts.txt", "--engines", "torch"]
    assert run("bench", *asked, "--rounds", "1", "--json", found) == 0
    assert json.loads(found.read_text())["max_length"] == 9


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
        (["--precisions", "fp32,fp8"], "no engine has this precision"),
        (["--feeds", "packed", "--engines", "stock"], "there is nothing to measure"),
        (["--texts", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["--texts", "x" * 5000], "--texts is not a file or folder"),
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
    asked = ["bench", "--model", folder, "--engines", "stock, torch", "--json", tmp_path / "b.json"]
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


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("\ufeffgood film\n\n  \nit is\u0085bad\nnot read", ["good film", "it is\u0085bad"]),
        ("good film\tbad plot\r\na\tb\n", [("good film", "bad plot"), ("a", "b")]),
    ],
)
def test_texts_are_read_as_one_text_per_line_is_everywhere(lines, expected, tmp_path):
    """By newlines alone, in UTF-8 with or without its mark, and no further than is asked for."""
    (tmp_path / "texts").write_bytes(lines.encode() + b"\n\n" + 4096 * b"x" + b"\xff")
    asked = BenchFlags(model="m", texts=str(tmp_path / "texts"), inputs=2)
    assert measure._texts(asked, Columns()) == expected


@pytest.fixture
def machine(monkeypatch):
    """The machine of `FOUND`, under the cap that it asks for: then nothing is set."""
    monkeypatch.setattr(measure, "examine", lambda engine, precision: FOUND[engine, precision])
    monkeypatch.setenv(ISA, CAPS[0])


@pytest.mark.slow  # every engine and precision in a process of its own
def test_every_engine_is_tried_measured_told_and_remembered(tmp_path, memory, monkeypatch, capsys):
    """The oracle is the machine that runs the tests: all engines are installed and work, under the cap."""
    assert run("doctor", "--json", tmp_path / "machine.json") == 0
    figures = json.loads((tmp_path / "machine.json").read_text())
    shown = capsys.readouterr().out
    assert [(row["engine"], row["precision"]) for row in figures["engines"]] == list(PAIRS)
    assert figures["machine"]["processor"] in shown
    assert figures["peak_gflops"]["fp32"] > 0
    assert figures["environment"] == {}
    for row in figures["engines"]:
        if row["precision"] == "fp32" or "avx512_bf16" in figures["machine"]["isa"]:
            assert row["state"] == WORKS, row
            assert row["gflops"] > 0
    plain = {row["engine"]: row["gflops"] for row in figures["engines"] if row["precision"] == "fp32"}
    best = max(plain, key=plain.get)
    assert figures["recommended"]["same_answers"] == {"engine": best, "precision": "fp32"}
    assert f"fastest with the answers of fp32: {best} fp32" in shown
    monkeypatch.setattr(probing, "examine", lambda *pair: pytest.fail("it was remembered"))
    probing._known.clear()
    assert memory.exists()
    assert probing.probe("onnx", "int8").gflops == figures["engines"][3]["gflops"]


@pytest.mark.usefixtures("memory", "machine")
def test_the_table_has_a_plain_word_for_each(capsys):
    assert run("doctor") == 0
    lines = capsys.readouterr().out.splitlines()
    expected = {
        ("torch", "fp32"): "works",
        ("torch", "bf16"): "4.00 works under an ISA cap, training only",
        ("onnx", "int8"): "0.75 slower than fp32",
        ("openvino", "fp32"): 'missing: pip install "powerbert[openvino]"',
        ("openvino", "int8"): "2.50 works",
        ("openvino", "bf16"): "crashes: died with SIGILL",
        ("openvino", "int8+bf16"): "3.00 works, answers depend on the batch",
    }
    for pair, words in expected.items():
        row = next(" ".join(line.split()) for line in lines if line.split()[:2] == list(pair))
        assert row.endswith(words)
    told = [line.strip() for line in lines]
    assert "fastest: openvino int8" in told
    assert "fastest with the answers of fp32: torch fp32" in told
    assert any(line.startswith(f"set {ISA}={CAPS[0]}") for line in told)


@pytest.mark.usefixtures("memory", "machine")
def test_json_on_a_dash_leaves_standard_output_to_json(capsys):
    assert run("doctor", "--json", "-") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["recommended"]["fastest"] == {"engine": "openvino", "precision": "int8"}
    assert figures["environment"] == {ISA: CAPS[0]}
    assert {"engine": TRAINING[0], "precision": TRAINING[1]} not in figures["recommended"].values()
    assert figures["machine"]["cores"] > 0


@pytest.mark.usefixtures("memory", "machine")
def test_a_mistake_is_one_line_before_the_machine_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(measure, "examine", lambda *pair: pytest.fail("measured"))
    assert run("doctor", "--json", "nowhere/machine.json") == 2
    assert capsys.readouterr().err.startswith("powerbert: error: the folder of --json does not exist")
