"""What an exported folder carries, how it is replaced, the precisions, and what is refused in one line."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys

import numpy as np
import onnx
import pytest
import torch
from exports import Exports
from models import batch_of, tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.engines.graph_engines import OpenVinoEngine
from powerbert.engines.open import open_engine
from powerbert.errors import MissingExtraError, ModelFolderError, PowerBertError, UnsupportedModelError
from powerbert.export import write as module
from powerbert.export.write import export

SHAPES = ([1], [2], [40], [200, 3, 17])


def refusal(kind, call, *args, **options):
    with pytest.raises(kind) as error:
        call(*args, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# ---- what a folder carries ---------------------------------------------------------------


@pytest.mark.parametrize("engine", ["onnx", "openvino"])
def test_one_folder_has_graph_tokenizer_and_retention_and_no_path_of_this_machine(relative, engine):
    folder = relative.made(engine)
    manifest = json.loads((folder / "powerbert.json").read_text())
    assert manifest["elimination"]["retention"] == relative_retention().to_json()
    assert manifest["export"]["engine"] == engine
    graphs = {"onnx": {"model.onnx"}, "openvino": {"model.xml", "model.bin"}}[engine]
    files = {"config.json", "tokenizer.json", "tokenizer_config.json", *graphs}
    assert set(manifest["sha256"]) == files
    assert {path.name for path in folder.iterdir()} == files | {"powerbert.json"}
    for path in folder.iterdir():
        assert b".py" not in path.read_bytes()  # the exporter notes source files at every node


def relative_retention():
    return RetentionConfiguration.relative((0.8, 0.5, 0.1))


def test_an_export_leaves_model_and_tokenizer_alone(relative):
    relative.made("onnx")
    assert relative.tokenizer.backend_tokenizer.padding is None
    assert relative.tokenizer.backend_tokenizer.truncation is None
    base = relative.model.base_model
    assert not base._forward_hooks
    assert not base._forward_pre_hooks


def test_a_folder_opens_with_the_engine_it_was_made_for(relative, tmp_path):
    assert open_engine(relative.made("openvino")).name == "openvino"
    powerbert.save(relative.model, relative.tokenizer, tmp_path / "saved")
    assert open_engine(tmp_path / "saved").name == "torch"


def test_a_failed_export_leaves_what_was_there(relative, tmp_path, monkeypatch):
    folder = shutil.copytree(relative.made("onnx"), tmp_path / "model")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(module, "trace_graph", fail)
    refusal(ModelFolderError, export, relative.model, relative.tokenizer, folder, "onnx")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_export_replaces_an_export_and_spares_other_folders(relative, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "trace_graph", relative._once)
    folder = shutil.copytree(relative.made("openvino"), tmp_path / "model")
    export(relative.model, relative.tokenizer, folder, "onnx")
    assert open_engine(folder).name == "onnx"
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    refusal(ModelFolderError, export, relative.model, relative.tokenizer, tmp_path / "photos", "onnx")


def test_an_export_never_replaces_the_model_that_it_comes_from(relative, tmp_path, monkeypatch):
    """Nor any other saved model: its only weights would be lost. Refused before anything is traced."""
    monkeypatch.setattr(module, "trace_graph", lambda *_: pytest.fail("it was traced"))
    powerbert.save(relative.model, relative.tokenizer, tmp_path / "saved")
    relative.model.save_pretrained(tmp_path / "plain")
    for name in ("saved", "plain"):
        before = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        message = refusal(ModelFolderError, export, relative.model, relative.tokenizer, tmp_path / name, "onnx")
        assert "holds a saved model" in message
        assert {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} == before


# ---- precisions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "precision", "within"),
    [("onnx", "int8", 0.5), ("openvino", "int8", 1.5), ("openvino", "bf16", 0.3), ("openvino", "int8+bf16", 1.5)],
)
def test_lower_precisions_keep_counts_exact_and_shapes_free(relative, engine, precision, within):
    """Words may differ where scores are close; how many are retained may not."""
    opened = relative.opened(engine, precision)
    assert opened.precision == precision
    differences = []
    for lengths in SHAPES:
        batch = batch_of(lengths)
        answer, expected = opened.run(batch, retained=True), relative.torch.run(batch, retained=True)
        for i, length in enumerate(lengths):
            counts = relative_retention().counts(length)
            assert [len(row) for row in answer.retained[i]] == [*counts[:-1], 1]
            assert all(row[0] == 0 for row in answer.retained[i])
        differences.append(np.abs(answer.logits - expected.logits).max())
    assert 0 < np.median(differences) < within


def test_int8_is_really_int8(relative):
    kinds = {node.op_type for node in onnx.load(relative.made("onnx", "int8") / "model.onnx").graph.node}
    assert {"MatMulIntegerToFloat", "QuantizeLinear"} <= kinds
    assert "FakeQuantize" in (relative.made("openvino", "int8") / "model.xml").read_text()


def test_bf16_runs_from_the_file_without_it_and_int8_needs_its_own(relative):
    assert OpenVinoEngine.load(relative.made("openvino"), "bf16", 1).precision == "bf16"
    assert OpenVinoEngine.load(relative.made("openvino", "int8"), "int8+bf16", 1).precision == "int8+bf16"
    assert OpenVinoEngine.load(relative.made("openvino", "int8+bf16"), "int8", 1).precision == "int8"
    message = refusal(ModelFolderError, open_engine, relative.made("openvino"), precision="int8")
    assert "export the model again in int8" in message


# ---- refusals ----------------------------------------------------------------------------


def test_unknown_engines_and_precisions_are_refused(relative, tmp_path):
    given = (relative.model, relative.tokenizer, tmp_path / "model")
    assert "onnx, openvino" in refusal(PowerBertError, export, *given, "tensorrt")
    assert "fp32, int8" in refusal(PowerBertError, export, *given, "onnx", "int3")
    assert "calibration" in refusal(PowerBertError, export, *given, "openvino", "int8")
    assert "torch, onnx, openvino" in refusal(PowerBertError, open_engine, relative.made("onnx"), "tensorrt")
    assert "fp32, int8" in refusal(PowerBertError, open_engine, relative.made("onnx"), "onnx", "bf16")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(("package", "extra"), [("onnxruntime", "onnx"), ("openvino", "openvino")])
def test_a_missing_extra_is_told_with_its_pip_command(relative, tmp_path, monkeypatch, package, extra):
    folder = relative.made(extra)
    monkeypatch.setitem(sys.modules, package, None)
    assert f'pip install "powerbert[{extra}]"' in refusal(MissingExtraError, open_engine, folder)
    given = (relative.model, relative.tokenizer, tmp_path / "model", extra)
    assert f'pip install "powerbert[{extra}]"' in refusal(MissingExtraError, export, *given)


def test_models_that_no_engine_serves_are_refused(relative, tmp_path):
    tokenizer = tokenizer_for()
    for model in (tiny("bert", "ForTokenClassification"), tiny("bert").double(), torch.nn.Linear(2, 2)):
        refusal(UnsupportedModelError, export, model, tokenizer, tmp_path / "model", "onnx")
    short = powerbert.apply(tiny("bert"), RetentionConfiguration.absolute([1] * 4, 1))
    assert "two words" in refusal(UnsupportedModelError, export, short, tokenizer, tmp_path / "model", "onnx")


def rewrite(name, content):
    """Replace a file and its sha256, as somebody would who means harm."""

    def damage(folder):
        (folder / name).write_bytes(content)
        manifest = json.loads((folder / "powerbert.json").read_text())
        manifest["sha256"][name] = hashlib.sha256(content).hexdigest()
        (folder / "powerbert.json").write_text(json.dumps(manifest))

    return damage


def edit_export(**changes):
    def damage(folder):
        manifest = json.loads((folder / "powerbert.json").read_text())
        manifest["export"] |= changes
        (folder / "powerbert.json").write_text(json.dumps(manifest))

    return damage


def flip_a_bit(folder):
    data = bytearray((folder / "model.onnx").read_bytes())
    data[-5] ^= 1
    (folder / "model.onnx").write_bytes(data)


DAMAGE = {
    "a flipped bit": flip_a_bit,
    "no graph": lambda folder: (folder / "model.onnx").unlink(),
    "no manifest": lambda folder: (folder / "powerbert.json").unlink(),
    "a graph that is none": rewrite("model.onnx", b"not a graph"),
    "an empty graph": rewrite("model.onnx", b""),
    "an unknown export": edit_export(longest="long"),
    "no labels": edit_export(labels=[]),
    "an unknown engine": edit_export(engine="tensorrt"),
    "an engine that is a list": edit_export(engine=[]),
    "an unknown precision": edit_export(precision="int3"),
    "other inputs": edit_export(inputs=["input_ids"]),
    "no words": edit_export(longest=-1),
    "more words than any model reads": edit_export(longest=10**30),
    "a negative vocabulary": edit_export(vocabulary=-1),
    "negative token types": edit_export(types=-1),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_corrupt_or_foreign_folder_is_refused_in_one_line(relative, tmp_path, damage):
    folder = shutil.copytree(relative.made("onnx"), tmp_path / "model")
    damage(folder)
    refusal(PowerBertError, open_engine, folder, "onnx")
    refusal(PowerBertError, open_engine, folder)


def test_a_corrupt_openvino_graph_is_refused_in_one_line(relative, tmp_path):
    folder = shutil.copytree(relative.made("openvino"), tmp_path / "model")
    rewrite("model.xml", b"<net></net>")(folder)
    refusal(ModelFolderError, open_engine, folder)


def test_folders_of_other_kinds_are_sent_where_they_belong(relative, tmp_path):
    powerbert.save(relative.model, relative.tokenizer, tmp_path / "saved")
    assert "export" in refusal(ModelFolderError, open_engine, tmp_path / "saved", "onnx")
    assert "another engine" in refusal(ModelFolderError, open_engine, relative.made("onnx"), "openvino")
    assert "exported model" in refusal(ModelFolderError, open_engine, relative.made("onnx"), "torch")
    assert "exported model" in refusal(ModelFolderError, powerbert.load, relative.made("onnx"))
    assert "not a folder" in refusal(ModelFolderError, open_engine, tmp_path / "nowhere")


BAD = {
    "no mask": {"attention_mask": None},
    "a longer input than it reads": {name: torch.ones(1, 513).long() for name in ("input_ids", "attention_mask")},
    "an unknown word": {"input_ids": torch.full((1, 9), 60)},
    "a negative word": {"input_ids": torch.full((1, 9), -1)},
    "an unknown type": {"token_type_ids": torch.full((1, 9), 2)},
    "another shape": {"attention_mask": torch.ones(1, 8).long()},
    "one dimension": {name: torch.ones(9).long() for name in ("input_ids", "attention_mask")},
    "no inputs": {name: torch.ones(0, 9).long() for name in ("input_ids", "attention_mask")},
    "fractions": {"input_ids": torch.full((1, 9), 5.5)},
}


@pytest.mark.parametrize("engine", ["torch", "onnx", "openvino"])
@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_a_batch_that_would_be_read_out_of_bounds_is_refused(relative, engine, change):
    opened = relative.torch if engine == "torch" else relative.opened(engine)
    batch = {name: rows for name, rows in (batch_of([9]) | change).items() if rows is not None}
    refusal(PowerBertError, opened.run, batch)


def test_padding_beyond_the_longest_input_is_free_of_charge_and_harmless(relative):
    wide, narrow = batch_of([9, 4], width=600), batch_of([9, 4])
    for opened in (relative.torch, relative.opened("onnx"), relative.opened("openvino")):
        assert np.array_equal(opened.run(wide).logits, opened.run(narrow).logits)
    nothing = {"input_ids": np.zeros((1, 5), int), "attention_mask": np.zeros((1, 5), int)}
    assert np.isfinite(relative.opened("onnx").run(nothing).logits).all()


@pytest.mark.slow
def test_a_plain_model_exports_as_it_is(tmp_path):
    model = tiny("bert", num_hidden_layers=1)
    exports = Exports(model, tmp_path)
    for engine in ("onnx", "openvino"):
        opened = exports.opened(engine)
        for lengths in ([1], [2], [30, 4, 11]):
            batch = batch_of(lengths)
            answer = opened.run(batch, retained=True)
            assert answer.retained == [()] * len(lengths)
            with torch.no_grad():
                assert np.abs(answer.logits - model(**batch).logits.numpy()).max() < 1e-4
