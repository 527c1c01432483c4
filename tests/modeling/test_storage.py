"""save and load: what a folder carries, and that damage is found."""

from __future__ import annotations

import json
import logging

import pytest
import torch
from models import FAMILIES, batch_of, tiny
from texts import tokenizer_for
from transformers import AutoModelForSequenceClassification

import powerbert
from powerbert import RetentionConfiguration, Scoring
from powerbert.errors import ModelFolderError, PowerBertError, UnsupportedModelError
from powerbert.folders.manifest import folder_digest, read_manifest
from powerbert.modeling import storage
from powerbert.modeling.apply import elimination_of, retention_of

RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.1))


@torch.no_grad()
def logits(model, batch):
    return model(**batch).logits


@pytest.fixture
def folder(tmp_path):
    model = powerbert.apply(tiny("bert"), RELATIVE, "rand-ws", scoring=Scoring(exclude_self=True, seed=3))
    powerbert.save(model, tokenizer_for(), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_model_answers_the_same_after_loading(tmp_path, family):
    model = powerbert.apply(tiny(family), RELATIVE)
    batch = batch_of([13, 7], pad=model.config.pad_token_id or 0)
    powerbert.save(model, tokenizer_for(), tmp_path / "model")
    loaded, tokenizer = powerbert.load(tmp_path / "model")
    assert torch.equal(logits(loaded, batch), logits(model, batch))
    assert list(loaded.state_dict()) == list(model.state_dict())
    assert tokenizer("good film")["input_ids"] == tokenizer_for()("good film")["input_ids"]


def test_loading_applies_what_was_saved_and_says_so(folder, caplog):
    with caplog.at_level(logging.INFO, "powerbert"):
        model, _ = powerbert.load(folder)
    elimination = elimination_of(model)
    assert elimination.retention == RELATIVE
    assert elimination.strategy == "rand-ws"
    assert elimination.scoring == Scoring(exclude_self=True, seed=3)
    assert "elimination applied, rand-ws, retention 0.9,0.6,0.4,0.1" in caplog.text


def test_the_folder_says_what_it_carries(folder):
    manifest = json.loads((folder / "powerbert.json").read_text())
    assert manifest["elimination"]["retention"] == {"kind": "relative", "fractions": [0.9, 0.6, 0.4, 0.1]}
    assert manifest["elimination"]["strategy"] == "rand-ws"


def test_a_plain_transformers_load_is_an_ordinary_model(folder):
    plain = AutoModelForSequenceClassification.from_pretrained(folder)
    assert retention_of(plain) is None
    batch = batch_of([13, 7])
    assert torch.equal(logits(plain.eval(), batch), logits(tiny("bert"), batch))


def test_a_model_without_elimination_saves_and_loads_as_it_is(tmp_path):
    powerbert.save(tiny("bert"), tokenizer_for(), tmp_path / "plain")
    assert retention_of(powerbert.load(tmp_path / "plain")[0]) is None


def test_a_plain_transformers_folder_loads_without_elimination(tmp_path):
    tiny("bert").save_pretrained(tmp_path)
    tokenizer_for().save_pretrained(tmp_path)
    assert retention_of(powerbert.load(tmp_path)[0]) is None


def test_saving_again_replaces_the_model_and_spares_other_folders(folder, tmp_path):
    model, tokenizer = powerbert.load(folder)
    powerbert.save(powerbert.remove(model), tokenizer, folder)
    assert retention_of(powerbert.load(folder)[0]) is None
    other = tmp_path / "holiday"
    other.mkdir()
    (other / "photo.jpg").write_bytes(b"precious")
    with pytest.raises(ModelFolderError, match="holiday"):
        powerbert.save(model, tokenizer, other)
    assert (other / "photo.jpg").read_bytes() == b"precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["holiday", "model"]


def flip_a_bit(folder):
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def edit(**changes):
    def change(folder):
        path = folder / "powerbert.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def elimination(**changes):
    whole = {"retention": RELATIVE.to_json(), "strategy": "attn-ws", "scoring": {}}
    return edit(elimination=whole | changes)


def retention(value):
    return elimination(retention=value)


def make_a_folder(folder):
    (folder / "powerbert.json").unlink()
    (folder / "powerbert.json").mkdir()


DAMAGE = {
    "a flipped bit": flip_a_bit,
    "a changed config": lambda folder: (folder / "config.json").write_text("{}"),
    "a missing tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
    "a manifest that is not JSON": lambda folder: (folder / "powerbert.json").write_text("{"),
    "a manifest of another shape": lambda folder: (folder / "powerbert.json").write_text("[]"),
    "a huge manifest": lambda folder: (folder / "powerbert.json").write_text(" " * 2_000_000),
    "a future format": edit(format=99),
    "an unknown strategy": elimination(strategy="best-ws"),
    "a rising retention": retention({"kind": "relative", "fractions": [0.1, 0.2, 0.3, 0.4]}),
    "a retention of another depth": retention({"kind": "relative", "fractions": [0.5]}),
    "a retention of NaN": retention({"kind": "relative", "fractions": [float("nan")] * 4}),
    "no retention": edit(elimination={}),
    "a strategy that is a list": elimination(strategy=[]),
    "a seed that is text": elimination(scoring={"seed": "3"}),
    "a huge seed": elimination(scoring={"seed": 10**30}),
    "an option that is text": elimination(scoring={"exclude_self": "no"}),
    "a retention nested without end": elimination(retention="[" * 100_000),
    "a manifest that is a folder": make_a_folder,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_folder_is_refused_in_one_line(folder, damage):
    damage(folder)
    with pytest.raises(PowerBertError) as error:
        powerbert.load(folder)
    assert "\n" not in str(error.value)


def test_a_peft_model_is_sent_back_to_be_merged(tmp_path):
    from peft import LoraConfig, get_peft_model

    lora = get_peft_model(tiny("bert"), LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query"]))
    with pytest.raises(PowerBertError, match="merge_and_unload"):
        powerbert.save(lora, tokenizer_for(), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_model_with_an_adapter_of_transformers_own_is_sent_back_too(tmp_path):
    """save_pretrained would write the adapter alone, without the weights that it changes."""
    from peft import LoraConfig

    model = tiny("bert")
    model.add_adapter(LoraConfig(r=2, target_modules=["query"]))
    with pytest.raises(UnsupportedModelError, match="merge_and_unload"):
        powerbert.save(model, tokenizer_for(), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_files_of_the_user_beside_a_model_are_never_deleted(folder):
    model, tokenizer = powerbert.load(folder)
    (folder / "train.csv").write_text("mine")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ModelFolderError, match=r"train\.csv"):
        powerbert.save(model, tokenizer, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_files_that_were_saved_with_a_model_are_replaced_with_it(folder, tmp_path):
    model, tokenizer = powerbert.load(folder)
    powerbert.save(model, tokenizer, tmp_path / "new", extra={"README.md": b"card", "run.json": b"{}"})
    powerbert.save(model, tokenizer, tmp_path / "new", extra={"README.md": b"other"})
    assert (tmp_path / "new" / "README.md").read_bytes() == b"other"
    assert not (tmp_path / "new" / "run.json").exists()


def test_a_manifest_that_was_read_is_not_read_again(folder, monkeypatch):
    manifest = read_manifest(folder)
    monkeypatch.setattr(storage, "read_manifest", None)
    assert elimination_of(powerbert.load(folder, manifest=manifest)[0]).strategy == "rand-ws"


# ---- graphs of the same model ------------------------------------------------------------


def save_with_graphs(exports, folder, **more):
    graphs = {"onnx-fp32": exports.made("onnx")}
    powerbert.save(exports.model, exports.tokenizer, folder, graphs=graphs, engine="onnx-fp32", **more)
    return folder


def test_a_folder_holds_model_graphs_and_other_files_and_is_replaced_as_a_whole(relative, tmp_path):
    folder = save_with_graphs(relative, tmp_path / "model", extra={"report.json": b"{}"})
    manifest = read_manifest(folder)
    assert (manifest.engine, set(manifest.graphs), manifest.extra) == ("onnx-fp32", {"onnx-fp32"}, ("report.json",))
    copied = {path.name: path.read_bytes() for path in (folder / "onnx-fp32").iterdir()}
    assert copied == {path.name: path.read_bytes() for path in relative.made("onnx").iterdir()}
    plain = tmp_path / "plain"
    powerbert.save(relative.model, relative.tokenizer, plain)
    assert folder_digest(folder) == folder_digest(plain)  # a graph changes nothing of what load gives
    save_with_graphs(relative, folder)
    powerbert.save(relative.model, relative.tokenizer, folder)
    assert {path.name for path in folder.iterdir()} == {path.name for path in plain.iterdir()}


def another_graph(folder):
    """As an export of the user's own over ours leaves it."""
    path = folder / "onnx-fp32" / "powerbert.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"extra": ["mine.txt"]}))


MINE = {
    "a file in a graph": lambda folder: (folder / "onnx-fp32" / "mine.txt").write_text("mine"),
    "a folder in a graph": lambda folder: (folder / "onnx-fp32" / "mine").mkdir(),
    "a folder beside": lambda folder: (folder / "mine").mkdir(),
    "another graph": another_graph,
}


@pytest.mark.parametrize("add", MINE.values(), ids=MINE)
def test_what_the_user_put_beside_or_into_a_graph_is_never_deleted(relative, tmp_path, add):
    folder = save_with_graphs(relative, tmp_path / "model")
    add(folder)
    before = {str(path): path.is_dir() or path.read_bytes() for path in folder.rglob("*")}
    with pytest.raises(ModelFolderError) as error:
        powerbert.save(relative.model, relative.tokenizer, folder)
    assert "\n" not in str(error.value)
    assert {str(path): path.is_dir() or path.read_bytes() for path in folder.rglob("*")} == before


def test_a_graph_must_be_a_whole_export_of_this_model(relative, folder, tmp_path):
    made, other = relative.made("onnx"), powerbert.apply(tiny("bert"), RELATIVE)
    calls = {
        "not an exported model": (relative.model, {"graphs": {"onnx": folder}}),
        "another elimination": (other, {"graphs": {"onnx": made}}),
        "wrong name": (relative.model, {"graphs": {"../onnx": made}}),
        "unknown graph": (relative.model, {"graphs": {"onnx": made}, "engine": "openvino"}),
        "it has none": (relative.model, {"engine": "openvino"}),
    }
    for message, (model, more) in calls.items():
        with pytest.raises(ModelFolderError, match=message):
            powerbert.save(model, relative.tokenizer, tmp_path / "new", **more)
    assert not (tmp_path / "new").exists()
