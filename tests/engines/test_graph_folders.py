"""A saved folder with graphs of its model in sub-folders: which engine opens it, and what is refused in one line.

Oracle: the engine's name and precision, and the answers of the same model in torch.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys

import pytest

import powerbert
from powerbert.engines import open as registry
from powerbert.engines.open import open_engine
from powerbert.errors import MissingExtraError, ModelFolderError, PowerBertError
from powerbert.folders import manifest
from powerbert.machine.verdicts import CRASHES, Verdict
from powerbert.modeling.apply import retention_of

TEXTS = ["good film", "the plot was very dull", "it is great"]
GRAPHS = ("onnx-fp32", "openvino-fp32", "onnx-int8")


@pytest.fixture(scope="module")
def folder(relative, tmp_path_factory):
    """Made for ONNX Runtime in int8; its other graphs are fp32."""
    folder = tmp_path_factory.mktemp("graphs") / "model"
    graphs = {name: relative.made(*name.split("-")) for name in GRAPHS}
    powerbert.save(relative.model, relative.tokenizer, folder, graphs=graphs, engine="onnx-int8")
    return folder


@pytest.fixture
def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "model")


def refusal(call, *args, kind=ModelFolderError, **options):
    with pytest.raises(kind) as error:
        call(*args, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def edit(folder, **changes):
    path = folder / "powerbert.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# ---- what opens --------------------------------------------------------------------------

ASKED = {
    (): ("onnx", "int8"),
    ("torch",): ("torch", "fp32"),
    ("onnx",): ("onnx", "int8"),
    ("onnx", "fp32"): ("onnx", "fp32"),
    ("openvino",): ("openvino", "fp32"),
    (None, "int8"): ("onnx", "int8"),
    (None, "fp32"): ("onnx", "fp32"),
}


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_a_folder_opens_in_what_is_asked_for_and_else_in_what_it_was_made_for(folder, asked):
    engine = powerbert.pipeline(folder, *asked).engine
    assert (engine.name, engine.precision) == ASKED[asked]


def test_every_engine_gives_the_answers_of_torch(folder):
    expected = powerbert.pipeline(folder, "torch")(TEXTS)
    for asked in (("onnx", "fp32"), ("openvino", "fp32")):
        for answer, other in zip(powerbert.pipeline(folder, *asked)(TEXTS), expected, strict=True):
            assert answer == {"label": other["label"], "score": pytest.approx(other["score"], abs=1e-3)}


def test_bf16_is_had_from_the_graph_in_fp32(folder, monkeypatch):
    monkeypatch.setattr(registry, "probe", lambda *given: Verdict("openvino", "bf16", "works", 9.0, 2.0))
    assert open_engine(folder, "openvino", "bf16").precision == "bf16"


def test_load_reads_the_torch_model(folder, relative):
    assert retention_of(powerbert.load(folder)[0]) == retention_of(relative.model)


def test_without_an_engine_to_be_made_for_torch_answers(relative, tmp_path):
    powerbert.save(relative.model, relative.tokenizer, tmp_path / "a", graphs={"onnx": relative.made("onnx")})
    assert powerbert.pipeline(tmp_path / "a").engine.name == "torch"
    assert powerbert.pipeline(tmp_path / "a", "onnx").engine.name == "onnx"


def test_only_the_graph_is_hashed_that_answers(folder, monkeypatch):
    hashed, digest = [], manifest.digest
    monkeypatch.setattr(manifest, "digest", lambda path: hashed.append(path) or digest(path))
    open_engine(folder)
    assert {path.parent.name for path in hashed} == {"onnx-int8"}
    assert len(hashed) == len(set(hashed))


# ---- a machine that lacks the engine -----------------------------------------------------


def test_an_engine_that_is_not_installed_is_told_and_torch_answers(folder, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    caplog.set_level(logging.WARNING, "powerbert")
    assert powerbert.pipeline(folder).engine.name == "torch"
    (line,) = caplog.messages
    assert "made for onnx-int8" in line
    assert 'pip install "powerbert[onnx]"' in line
    refusal(powerbert.pipeline, folder, "onnx", kind=MissingExtraError)


def test_a_precision_that_does_not_run_is_told_and_torch_answers(folder, monkeypatch, caplog):
    monkeypatch.setattr(registry, "probe", lambda *given: Verdict("onnx", "int8", CRASHES, detail="died with SIGILL"))
    caplog.set_level(logging.WARNING, "powerbert")
    assert powerbert.pipeline(folder).engine.name == "torch"
    (line,) = caplog.messages
    assert "SIGILL" in line
    assert "SIGILL" in refusal(powerbert.pipeline, folder, precision="int8", kind=PowerBertError)


# ---- what is refused ---------------------------------------------------------------------


def replace_by_a_link(folder):
    (folder / "onnx-int8").rename(folder.parent / "elsewhere")
    (folder / "onnx-int8").symlink_to(folder.parent / "elsewhere")


def replace_by_a_saved_model(folder):
    shutil.rmtree(folder / "onnx-int8")
    (folder / "onnx-int8").mkdir()
    (folder / "onnx-int8" / "powerbert.json").write_text('{"format": 1, "elimination": null, "sha256": {}}')
    edit(folder, graphs={"onnx-int8": manifest.digest(folder / "onnx-int8" / "powerbert.json")})


DAMAGE = {
    "a missing graph": lambda folder: shutil.rmtree(folder / "onnx-int8"),
    "a graph without a manifest": lambda folder: (folder / "onnx-int8" / "powerbert.json").unlink(),
    "another manifest": lambda folder: (folder / "onnx-int8" / "powerbert.json").write_text("{}"),
    "a changed graph": lambda folder: (folder / "onnx-int8" / "model.onnx").write_bytes(b"other"),
    "a link": replace_by_a_link,
    "a saved model": replace_by_a_saved_model,
    "a way out": lambda folder: edit(folder, graphs={"../x": "0"}, engine="../x"),
    "an absolute path": lambda folder: edit(folder, graphs={"/x": "0"}, engine="/x"),
    "the folder itself": lambda folder: edit(folder, graphs={".": "0"}, engine="."),
    "an engine that is no graph": lambda folder: edit(folder, engine="onnx-int4"),
    "an engine that is a list": lambda folder: edit(folder, engine=["onnx-int8"]),
    "graphs that are a list": lambda folder: edit(folder, graphs=["onnx-int8"]),
    "graphs in a graph": lambda folder: edit(folder, export={"engine": "onnx"}),
    "too many graphs": lambda folder: edit(folder, graphs={f"g{i}": "0" for i in range(17)}, engine="g0"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_wrong_graph_is_refused_in_one_line(copied, damage):
    damage(copied)
    assert str(copied) in refusal(powerbert.pipeline, copied)


def test_an_engine_without_a_graph_is_told_how_to_get_one(relative, tmp_path):
    powerbert.save(relative.model, relative.tokenizer, tmp_path / "a", graphs={"onnx": relative.made("onnx")})
    assert "--to openvino" in refusal(powerbert.pipeline, tmp_path / "a", "openvino")
