"""`powerbert doctor` through the real command line, with the real probes once."""

from __future__ import annotations

import json

import pytest

from powerbert.cli import doctor
from powerbert.cli.main import main
from powerbert.machine import verdicts as probing
from powerbert.machine.probes import TRAINING
from powerbert.machine.verdicts import CAPPED, CAPS, CRASHES, ISA, MISSING, PAIRS, WORKS, Verdict

pytestmark = pytest.mark.usefixtures("memory")

FOUND = {
    ("torch", "fp32"): Verdict("torch", "fp32", WORKS, 185.0, 1.0),
    ("torch", "bf16"): Verdict("torch", "bf16", CAPPED, 900.0, 4.0, CAPS[0], f"dies without {ISA}={CAPS[0]}"),
    ("onnx", "fp32"): Verdict("onnx", "fp32", WORKS, 120.0, 1.0),
    ("onnx", "int8"): Verdict("onnx", "int8", WORKS, 90.0, 0.75),
    ("openvino", "fp32"): Verdict("openvino", "fp32", MISSING, detail='pip install "powerbert[openvino]"'),
    ("openvino", "int8"): Verdict("openvino", "int8", WORKS, 500.0, 2.5),
    ("openvino", "bf16"): Verdict("openvino", "bf16", CRASHES, detail="died with SIGILL"),
}
"""A machine as no machine is: one of every kind."""


@pytest.fixture
def machine(monkeypatch):
    """The machine of `FOUND`, under the cap that it asks for: then nothing is set."""
    monkeypatch.setattr(doctor, "examine", lambda engine, precision: FOUND[engine, precision])
    monkeypatch.setenv(ISA, CAPS[0])


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


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


@pytest.mark.usefixtures("machine")
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
    }
    for pair, words in expected.items():
        row = next(" ".join(line.split()) for line in lines if line.split()[:2] == list(pair))
        assert row.endswith(words)
    told = [line.strip() for line in lines]
    assert "fastest: openvino int8" in told
    assert "fastest with the answers of fp32: torch fp32" in told
    assert any(line.startswith(f"set {ISA}={CAPS[0]}") for line in told)


@pytest.mark.usefixtures("machine")
def test_json_on_a_dash_leaves_standard_output_to_json(capsys):
    assert run("doctor", "--json", "-") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["recommended"]["fastest"] == {"engine": "openvino", "precision": "int8"}
    assert figures["environment"] == {ISA: CAPS[0]}
    assert {"engine": TRAINING[0], "precision": TRAINING[1]} not in figures["recommended"].values()
    assert figures["machine"]["cores"] > 0


@pytest.mark.usefixtures("machine")
def test_a_mistake_is_one_line_before_anything_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "examine", lambda *pair: pytest.fail("measured"))
    assert run("doctor", "--json", "nowhere/machine.json") == 2
    assert capsys.readouterr().err.startswith("powerbert: error: the folder of --json does not exist")
