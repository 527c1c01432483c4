"""`powerbert export` through the real command line. Oracle: the torch engine's own answers."""

from __future__ import annotations

import csv
import json

import pytest
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.cli import export as command
from powerbert.cli.main import main
from powerbert.engines import auto
from powerbert.engines.answers import answer
from powerbert.engines.open import open_engine
from powerbert.export import write as module

TEXTS = ["good film", "the plot is dull and the film is bad", "very good", "it is a film and it is good"] * 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, and a CSV file with what the model itself answers as labels."""
    folder = tmp_path_factory.mktemp("export") / "model"
    retention = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2))
    powerbert.save(powerbert.apply(tiny("bert"), retention), tokenizer_for(), folder)
    engine = open_engine(folder)
    with (folder.parent / "texts.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "verdict"])
        for text, logits in zip(TEXTS, answer(engine, TEXTS), strict=True):
            writer.writerow([text, engine.labels[int(logits.argmax())]])
    return folder


@pytest.fixture(scope="module")
def traced():
    """Tracing is what takes long, and the model is the same in every test."""
    programs: list[object] = []

    def trace(model, limits, once=module.trace_graph):
        if not programs:
            programs.append(once(model, limits))
        return programs[0]

    return trace


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_every_row_is_compared_where_no_scales_are_taken(folder, tmp_path, traced, monkeypatch, precision, capsys):
    monkeypatch.setattr(module, "trace_graph", traced)
    code = run(
        "export", "--model", folder, "--to", "onnx", "--output", tmp_path / "out", "--precision", precision,
        "--data", folder.parent / "texts.csv", "--text", "review", "--label", "verdict",
        "--json", tmp_path / "figures.json",
    )  # fmt: skip
    assert code == 0
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["texts"] == len(TEXTS)
    assert figures["metric"]["torch fp32"] == 1
    assert figures["metric"]["exported"] == figures["agreement"]
    assert figures["difference"] < (1e-4 if precision == "fp32" else 0.5)
    assert "same label" in capsys.readouterr().out
    assert open_engine(tmp_path / "out").precision == precision


def test_rows_that_gave_scales_are_not_compared(folder, tmp_path, traced, monkeypatch, capsys):
    monkeypatch.setattr(module, "trace_graph", traced)
    given = ("export", "--model", folder, "--to", "openvino", "--precision", "int8")
    data = ("--data", folder.parent / "texts.csv", "--text", "review", "--label", "verdict")
    assert run(*given, *data, "--output", tmp_path / "all", "--json", tmp_path / "all.json") == 0
    assert "nothing is compared: all 12 rows gave scales" in capsys.readouterr().err
    assert "agreement" not in json.loads((tmp_path / "all.json").read_text())
    monkeypatch.setattr(command, "CALIBRATION", 8)
    assert run(*given, *data, "--output", tmp_path / "some", "--json", tmp_path / "some.json") == 0
    assert json.loads((tmp_path / "some.json").read_text())["texts"] == len(TEXTS) - 8


def test_every_row_is_compared_where_other_texts_give_the_scales(folder, tmp_path, traced, monkeypatch, caplog):
    monkeypatch.setattr(module, "trace_graph", traced)
    (tmp_path / "others.csv").write_text("review\nthe film is very good\nit is bad\n")
    code = run(
        "export", "--model", folder, "--to", "openvino", "--precision", "int8", "--output", tmp_path / "out",
        "--data", folder.parent / "texts.csv", "--text", "review", "--label", "verdict",
        "--calibration", tmp_path / "others.csv", "--json", tmp_path / "figures.json",
    )  # fmt: skip
    assert code == 0
    assert json.loads((tmp_path / "figures.json").read_text())["texts"] == len(TEXTS)
    assert caplog.handler.level == 0  # NNCF's own way to be quiet silences the handlers of others


@pytest.mark.parametrize(("given", "tried"), [((), {"fp32", "int8"}), (("--precision", "fp32"), {"fp32"})])
def test_auto_writes_for_the_fastest_engine_and_says_why(folder, tmp_path, traced, monkeypatch, capsys, given, tried):
    """The oracle of speed is a clock of our own: ONNX Runtime takes half of OpenVINO's time, int8 half of fp32's."""
    monkeypatch.setattr(module, "trace_graph", traced)
    monkeypatch.setattr(auto, "trace_graph", traced)
    seen = []

    def paced(arms):
        seen.extend(arms)
        cost = {"onnx": 1.0, "openvino": 2.0, "fp32": 2.0, "int8": 1.0}
        times = {name: cost[name.split()[0]] * cost[name.split()[1]] for name in arms}
        return {(name, False, 1, 8): times[name] for name in arms}

    monkeypatch.setattr(auto, "calibrate", paced)
    monkeypatch.setattr(auto, "AGREEMENT", 0.0)  # tiny models change labels in int8
    monkeypatch.setattr(command, "CALIBRATION", 8)
    data = ("--data", folder.parent / "texts.csv", "--text", "review")
    asked = ("--to", "auto", "--output", tmp_path / "out", "--json", tmp_path / "figures.json")
    assert run("export", "--model", folder, *asked, *data, *given) == 0
    assert {name.split()[1] for name in seen} == tried  # bf16, whose answers depend on the batch, has to be asked for
    best = "int8" if "int8" in tried else "fp32"
    assert f"onnx {best} is the fastest here" in capsys.readouterr().err
    opened = open_engine(tmp_path / "out")
    assert (opened.name, opened.precision) == ("onnx", best)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert (figures["engine"], figures["precision"]) == ("onnx", best)


def test_auto_without_texts_stays_in_fp32(folder, tmp_path, traced, monkeypatch, capsys):
    """Nothing shows whether a lower precision keeps the labels."""
    monkeypatch.setattr(module, "trace_graph", traced)
    monkeypatch.setattr(auto, "trace_graph", traced)
    assert run("export", "--model", folder, "--to", "auto", "--output", tmp_path / "out") == 0
    assert open_engine(tmp_path / "out").precision == "fp32"
    assert "is the fastest here" in capsys.readouterr().err


@pytest.mark.parametrize("changed", [0, 1])
def test_more_changed_labels_than_one_in_a_hundred_are_told(folder, tmp_path, traced, monkeypatch, capsys, changed):
    monkeypatch.setattr(module, "trace_graph", traced)

    def turned(engine, texts, logits_of=command.logits_of):
        """The true answers, but for so many labels that the exported model turns round."""
        found = logits_of(engine, texts)
        if engine.name != "torch":
            found[:changed] = -found[:changed]
        return found

    monkeypatch.setattr(command, "logits_of", turned)
    data = ("--data", folder.parent / "texts.csv", "--text", "review", "--label", "verdict")
    assert run("export", "--model", folder, "--to", "onnx", "--output", tmp_path / "out", *data) == 0
    assert ("changes 8.3 % of the labels" in capsys.readouterr().err) == bool(changed)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--to", "tflite"], "onnx, openvino"),
        (["--to", "onnx", "--precision", "bf16"], "fp32, int8"),
        (["--to", "auto", "--precision", "fp8"], "unknown precision"),
        (["--to", "openvino", "--precision", "int8"], "calibration texts"),
        (["--to", "onnx", "--data", "missing.csv", "--text", "review"], "missing.csv"),
        (["--to", "onnx", "--calibration", "texts.csv"], "int8 in OpenVINO"),
    ],
    ids=[
        "an unknown engine",
        "an unknown precision",
        "a precision that none has",
        "no texts for scales",
        "no such data",
        "no scales",
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_line_and_nothing_is_written(
    folder, tmp_path, arguments, told, capsys
):
    assert run("export", "--model", folder, "--output", tmp_path / "out", *arguments) == 2
    error = capsys.readouterr().err.strip()
    assert told in error
    assert "\n" not in error
    assert not (tmp_path / "out").exists()
