"""engine="auto" on whole folders, and as the target of an export: what is measured, left out, chosen and answered."""

from __future__ import annotations

import logging
import sys
import tempfile

import numpy as np
import pytest
import torch
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.engines import auto
from powerbert.engines.auto import AutoEngine, Choice, open_arms, open_auto, without_elimination
from powerbert.errors import PowerBertError
from powerbert.export import write as export_module
from powerbert.modeling.limits import eliminates

TEXTS = ["good", "good film", "a film and a plot", "the plot is dull and the film is bad", "it is"]
HALF = RetentionConfiguration.relative((0.5, 0.1, 0.1, 0.1))


@pytest.fixture
def impatient(monkeypatch):
    """As few rounds as there can be: these tests are not about time."""
    monkeypatch.setattr(auto, "CALIBRATION_ROUNDS", 1)


@pytest.fixture
def torch_alone(monkeypatch, impatient):
    """Pretend that no other engine is installed."""
    for package in ("onnx", "onnxruntime", "openvino"):
        monkeypatch.setitem(sys.modules, package, None)


@pytest.fixture
def folder(tmp_path):
    powerbert.save(powerbert.apply(tiny("bert"), HALF), tokenizer_for(), tmp_path / "model")
    return tmp_path / "model"


def test_every_installed_engine_is_measured_and_the_answers_are_those_of_the_arm_it_names(
    relative, tmp_path, monkeypatch, caplog, impatient
):
    """The traced graph of the eliminated model is taken from the other tests: tracing takes long."""
    powerbert.save(relative.model, tokenizer_for(max_length=512), tmp_path / "model")
    trace = export_module.trace_graph

    def once(model, limits):
        return relative._once(model, limits) if eliminates(model) else trace(model, limits)

    monkeypatch.setattr(export_module, "trace_graph", once)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    kept = []
    measure = auto.calibrate
    monkeypatch.setattr(auto, "calibrate", lambda arms: kept.append(arms) or measure(arms))
    with caplog.at_level(logging.INFO, "powerbert"):
        classify = powerbert.pipeline(tmp_path / "model", engine="auto")
    assert list((tmp_path / "temporary").iterdir()) == []
    (arms,) = kept
    assert list(arms) == ["torch", "onnx", "openvino"]
    choice = classify.choice
    assert choice.engine in arms
    assert {name for name, *_ in choice.timings} == set(arms)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert f"{choice.engine} is the fastest engine" in caplog.text
    expected = {
        False: tiny("bert", num_hidden_layers=3, max_position_embeddings=512),
        True: powerbert.load(tmp_path / "model")[0],
    }
    for text in (*TEXTS, "the film was good and the plot was not bad but very dull " * 30):
        encoded = tokenizer_for(max_length=512)(text, truncation=True, return_tensors="pt")
        length = encoded["input_ids"].shape[1]
        for name, both in arms.items():  # each arm, so also the one it names
            for crossover in (None, 9, choice.crossover):
                engine = AutoEngine(both, Choice(name, crossover, {}))
                with torch.no_grad():
                    long = crossover is not None and length >= crossover
                    logits = expected[long](**encoded).logits.numpy()
                np.testing.assert_allclose(engine.run(encoded).logits, logits, atol=2e-3)
        assert classify(text)[0]["label"]


def test_a_machine_with_torch_alone_still_chooses_and_tells_what_is_missing(folder, torch_alone, caplog):
    with caplog.at_level(logging.INFO, "powerbert"):
        classify = powerbert.pipeline(folder, engine="auto")
    assert classify.choice.engine == "torch"
    assert 'pip install "powerbert[onnx]"' in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    for text in TEXTS:
        long = classify.choice.crossover is not None and len(tokenizer_for()(text)["input_ids"]) >= (
            classify.choice.crossover
        )
        model = powerbert.apply(tiny("bert"), HALF) if long else tiny("bert")
        with torch.no_grad():
            best = model(**tokenizer_for()(text, return_tensors="pt")).logits.softmax(dim=-1).max()
        assert classify(text)[0]["score"] == pytest.approx(float(best), abs=1e-5)


def test_a_model_that_cannot_be_traced_leaves_torch_with_one_line(monkeypatch, caplog):
    def fail(*_, **__):
        raise RuntimeError("the exporter\ngave up")

    monkeypatch.setattr(auto, "trace_graph", fail)
    model = powerbert.apply(tiny("bert"), HALF)
    arms = open_arms(model, tokenizer_for())
    assert list(arms) == ["torch"]
    assert arms["torch"].eliminated is not None
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "RuntimeError: the exporter gave up" in line
    assert "\n" not in line


def test_an_engine_that_fails_is_left_out_and_the_others_stay(relative, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("no such instruction")

    whole = without_elimination(relative.model)  # eliminates nothing: one graph is enough
    monkeypatch.setattr(export_module, "_write_openvino", fail)
    arms = open_arms(whole, tokenizer_for(max_length=512))
    assert list(arms) == ["torch", "onnx"]
    assert arms["onnx"].eliminated is None
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "engine openvino is left out" in line


def test_a_model_that_eliminates_nothing_has_no_crossover(tmp_path, torch_alone):
    powerbert.save(tiny("bert"), tokenizer_for(), tmp_path / "model")
    classify = powerbert.pipeline(tmp_path / "model", engine="auto")
    assert classify.choice.crossover is None
    assert classify("good film")[0]["label"]


def test_an_exported_folder_is_opened_with_its_own_engine(relative):
    for name in ("onnx", "openvino"):
        classify = powerbert.pipeline(relative.made(name), engine="auto")
        assert classify.engine.name == name
        assert classify.choice is None


def test_other_precisions_are_sent_to_the_export(folder):
    with pytest.raises(PowerBertError, match="export the model in this precision"):
        open_auto(folder, "int8")


@pytest.mark.parametrize(("share", "lower"), [(0.0, True), (1.1, False)])
def test_a_lower_precision_is_a_target_only_if_it_keeps_the_labels(relative, monkeypatch, share, lower):
    monkeypatch.setattr(auto, "trace_graph", relative._once)
    monkeypatch.setattr(auto, "AGREEMENT", share)
    tried = []
    measure = auto.calibrate
    monkeypatch.setattr(auto, "calibrate", lambda arms: tried.extend(arms) or measure(arms))
    engine, precision, why = auto.choose_target(relative.model, relative.tokenizer, None, TEXTS, TEXTS)
    assert {"onnx fp32", "openvino fp32"} <= set(tried)
    assert ({"onnx int8", "openvino int8"} <= set(tried)) == lower
    assert f"{engine} {precision}" in tried
    assert why.startswith(f"{engine} {precision} is the fastest here")
