"""Reading a model folder: every malformed one is refused in one line, before memory is allocated."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_folders import SIZES, TYPES, edit_bytes, edit_config, edit_header, edit_weights, refusal, saved
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
)

from powerbert.errors import ModelFolderError, PowerBertError, UnsupportedModelError
from powerbert.folders.safe import read_model, read_tokenizer

# ---- what is refused: config.json --------------------------------------------------------


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "nowhere is not a folder" in refusal(ModelFolderError, lambda: read_model(tmp_path / "nowhere", TYPES))
    assert "nowhere is not a folder" in refusal(ModelFolderError, lambda: read_tokenizer(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (None, "is missing"),
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[1]", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b'{"model_type": "bert", "model_type": "bert"}', "appears twice"),
        (b'{"model_type": NaN}', "not valid JSON"),
        (b"[" * 200_000, "not valid JSON"),
        (b" " * 1_000_001, "too large"),
    ],
    ids=["missing", "empty", "cut", "list", "bytes", "duplicate", "nan", "deep", "large"],
)
@pytest.mark.usefixtures("never_loaded")
def test_a_config_that_is_no_small_json_object_is_refused(folder: Path, text: bytes | None, named: str) -> None:
    (folder / "config.json").unlink()
    if text is not None:
        (folder / "config.json").write_bytes(text)
    message = refusal(ModelFolderError, lambda: read_model(folder, TYPES))
    assert "config.json" in message
    assert named in message


def test_a_config_that_is_a_pipe_is_refused_without_waiting(folder: Path) -> None:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    assert "config.json is missing" in refusal(ModelFolderError, lambda: read_model(folder, TYPES))


@pytest.mark.parametrize("value", [10**9, 10**30, -1, 0, 1.5, True, "768", [1]], ids=repr)
@pytest.mark.parametrize("name", ["hidden_size", "num_hidden_layers", "vocab_size", "num_labels"])
@pytest.mark.usefixtures("never_loaded")
def test_an_absurd_size_is_refused_before_anything_is_built(
    folder: Path, name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit_config(folder, **{name: value})
    monkeypatch.setattr(BertConfig, "__init__", lambda *args, **kwargs: pytest.fail("it was built"))
    for call in (lambda: read_model(folder, TYPES), lambda: read_tokenizer(folder)):
        message = refusal(ModelFolderError, call)
        assert f"{name} in {folder / 'config.json'} is out of range; got " in message
        assert "a whole number from 1 to " in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("type_vocab_size", -1),
        ("max_position_embeddings", 10**9),
        ("intermediate_size", 0),
        ("num_attention_heads", 10**6),
        ("id2label", {}),
        ("id2label", "good"),
        ("max_relative_positions", -2),
    ],
)
@pytest.mark.usefixtures("never_loaded")
def test_every_size_has_bounds(folder: Path, name: str, value: object) -> None:
    edit_config(folder, **{name: value})
    assert f"{name} in" in refusal(ModelFolderError, lambda: read_model(folder, TYPES))


@pytest.mark.usefixtures("never_loaded")
def test_more_layers_than_tensors_are_refused_without_building_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit_config(folder, num_hidden_layers=1000)
    monkeypatch.setattr(transformers.models.bert.modeling_bert, "BertLayer", None)
    assert "num_hidden_layers" in refusal(ModelFolderError, lambda: read_model(folder, TYPES))


@pytest.mark.usefixtures("never_loaded")
def test_large_sizes_are_refused_by_the_header_without_memory(folder: Path) -> None:
    edit_config(folder, hidden_size=96_000, num_attention_heads=2, vocab_size=9_000_000, intermediate_size=90_000)
    message = refusal(ModelFolderError, lambda: read_model(folder, TYPES))  # 3.4 TB if it were built
    assert "does not fit the model" in message


@pytest.mark.usefixtures("never_loaded")
def test_sinusoidal_positions_are_not_computed_before_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: dict[str, Any] = {"vocab_size": 50, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
    saved(DistilBertForSequenceClassification(DistilBertConfig(**sizes)), tmp_path)
    edit_config(tmp_path, sinusoidal_pos_embds=True, max_position_embeddings=1_000_000)
    distilbert = transformers.models.distilbert.modeling_distilbert
    monkeypatch.setattr(distilbert, "create_sinusoidal_embeddings", lambda **sizes: pytest.fail("a slow loop"))
    message = refusal(ModelFolderError, lambda: read_model(tmp_path, TYPES))
    assert "distilbert.embeddings.position_embeddings.weight" in message


@pytest.mark.parametrize("model_type", ["gpt2", "", None, 3, ["bert"]], ids=repr)
@pytest.mark.usefixtures("never_loaded")
def test_a_foreign_model_type_names_the_supported_ones(folder: Path, model_type: object) -> None:
    edit_config(folder, model_type=model_type)
    message = refusal(UnsupportedModelError, lambda: read_model(folder, TYPES))
    assert "albert, bert, distilbert" in message
    assert "docs/add-a-family.md" in message


@pytest.mark.parametrize(
    "names",
    [
        None,
        [],
        "BertModel",
        ["BertModel", "BertForMaskedLM"],
        [3],
        ["AutoModel"],
        ["os"],
        ["PreTrainedModel"],
        ["GPT2Model"],
        ["BertConfig"],
        ["NoSuchModel"],
        ["../BertModel"],
        ["__init__"],
    ],
    ids=repr,
)
@pytest.mark.usefixtures("never_loaded")
def test_architectures_must_name_one_model_of_this_type(folder: Path, names: object) -> None:
    edit_config(folder, architectures=names)
    message = refusal(ModelFolderError, lambda: read_model(folder, TYPES))
    assert "architectures in" in message
    assert "one bert class of transformers" in message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("auto_map", {"AutoModel": "code.Model"}),
        ("quantization_config", {"quant_method": "gptq"}),
        ("configuration_files", ["config.4.0.0.json"]),
        ("transformers_weights", "other.safetensors"),
        ("per_layer_config", {"0": {"intermediate_size": 8}}),
    ],
)
@pytest.mark.usefixtures("never_loaded")
def test_a_config_that_asks_for_more_than_a_plain_model_is_refused(folder: Path, key: str, value: object) -> None:
    edit_config(folder, **{key: value})
    assert f"config.json has {key}" in refusal(ModelFolderError, lambda: read_model(folder, TYPES))
    assert f"config.json has {key}" in refusal(ModelFolderError, lambda: read_tokenizer(folder))


@pytest.mark.parametrize("changes", [{"hidden_act": "no"}, {"pad_token_id": 99}, {"layer_norm_eps": "x"}], ids=repr)
@pytest.mark.usefixtures("never_loaded")
def test_what_transformers_cannot_build_is_told_in_one_line(folder: Path, changes: dict[str, object]) -> None:
    edit_config(folder, **changes)
    message = refusal(ModelFolderError, lambda: read_model(folder, TYPES))
    assert "does not describe a BertForSequenceClassification" in message


# ---- what is refused: weights ------------------------------------------------------------


def first_tensor(header: dict[str, Any], **changes: Any) -> None:
    header["bert.pooler.dense.bias"] |= changes


BAD_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (lambda f: edit_bytes(f / "model.safetensors", lambda data: data[:-1]), "is damaged"),
    "cut in the header": (lambda f: edit_bytes(f / "model.safetensors", lambda data: data[:99]), "is damaged"),
    "trailing bytes": (lambda f: edit_bytes(f / "model.safetensors", lambda data: data + b"\0"), "is damaged"),
    "empty": (lambda f: edit_bytes(f / "model.safetensors", lambda data: b""), "is damaged"),
    "absurd header length": (
        lambda f: edit_bytes(f / "model.safetensors", lambda data: b"\xff" * 8 + data[8:]),
        "is damaged",
    ),
    "header not JSON": (
        lambda f: edit_bytes(f / "model.safetensors", lambda data: data[:8] + b"[" + data[9:]),
        "is damaged",
    ),
    "negative offset": (lambda f: edit_header(f, lambda h: first_tensor(h, data_offsets=[-64, 0])), "is damaged"),
    "overlap": (lambda f: edit_header(f, lambda h: first_tensor(h, data_offsets=[0, 64])), "is damaged"),
    "offsets unlike the shape": (lambda f: edit_header(f, lambda h: first_tensor(h, shape=[15])), "is damaged"),
    "shape of floats": (lambda f: edit_header(f, lambda h: first_tensor(h, shape=[16.0])), "is damaged"),
    "unknown dtype": (lambda f: edit_header(f, lambda h: first_tensor(h, dtype="F5")), "is damaged"),
    "too small a dtype": (
        lambda f: edit_weights(f, lambda t: t.update({"classifier.bias": torch.zeros(2).to(torch.float8_e4m3fn)})),
        "the tensor classifier.bias in",
    ),
    "a shape that overflows": (lambda f: edit_header(f, lambda h: first_tensor(h, shape=[2**40, 2**40])), "is damaged"),
    "a header nested without end": (
        lambda f: edit_bytes(
            f / "model.safetensors", lambda data: struct.pack("<Q", 200_005) + b'{"a":' + b"[" * 200_000
        ),
        "is damaged",
    ),
    "whole numbers as weight": (lambda f: edit_header(f, lambda h: first_tensor(h, dtype="I32")), "I32 [16]"),
    "entry is no object": (lambda f: edit_header(f, lambda h: h.update(extra=3)), "is damaged"),
    "missing tensor": (lambda f: edit_weights(f, lambda t: t.pop("classifier.bias")), "lack 'classifier.bias'"),
    "four missing tensors": (
        lambda f: edit_weights(f, lambda t: [t.pop(n) for n in list(t) if "pooler" in n or "classifier" in n]),
        "'bert.pooler.dense.bias', 'bert.pooler.dense.weight', 'classifier.bias' and 1 more",
    ),
    "wrong shape": (
        lambda f: edit_weights(f, lambda t: t.update({"classifier.bias": torch.zeros(3)})),
        "the tensor classifier.bias",
    ),
    "unexpected tensor": (
        lambda f: edit_weights(f, lambda t: t.update({"extra.weight": torch.zeros(3)})),
        "unexpected 'extra.weight'",
    ),
    "old and new name": (
        lambda f: edit_weights(f, lambda t: t.update({"bert.embeddings.LayerNorm.gamma": torch.ones(16)})),
        "unexpected 'bert.embeddings.LayerNorm.gamma'",
    ),
    "other configuration": (lambda f: edit_config(f, intermediate_size=64), "does not fit the model"),
    "fewer layers": (lambda f: edit_config(f, num_hidden_layers=1), "bert.encoder.layer.1"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "has no model.safetensors"),
    "pickle only": (
        lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
        "pickles ('pytorch_model.bin') can run code and are never loaded; save the model with",
    ),
    "adapter": (lambda f: (f / "adapter_config.json").write_text("{}"), "adapter_config.json"),
    "distributed": (
        lambda f: shutil.copy(f / "model.safetensors", f / "shard-00000-model-00001-of-00001.safetensors"),
        "shard-00000",
    ),
}


@pytest.mark.parametrize("kind", BAD_FILES)
@pytest.mark.usefixtures("never_loaded")
def test_bad_weights_are_refused_before_they_are_loaded(folder: Path, kind: str) -> None:
    damage, named = BAD_FILES[kind]
    damage(folder)
    message = refusal(ModelFolderError, lambda: read_model(folder, TYPES))
    assert named in message
    assert str(folder) in message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_weight_that_is_not_finite_is_named(folder: Path, value: float) -> None:
    edit_weights(folder, lambda tensors: tensors["bert.pooler.dense.weight"][3, 4].fill_(value))
    message = refusal(ModelFolderError, lambda: read_model(folder, TYPES))
    assert "the tensor bert.pooler.dense.weight" in message


def test_a_double_too_large_for_fp32_is_named(folder: Path) -> None:
    huge = torch.full((2,), 1e300, dtype=torch.float64)
    edit_weights(folder, lambda tensors: tensors.update({"classifier.bias": huge}))
    assert "the tensor classifier.bias" in refusal(ModelFolderError, lambda: read_model(folder, TYPES))


def test_what_transformers_reports_missing_is_believed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*args: object, **kwargs: object) -> tuple[object, dict[str, object]]:
        return None, {"missing_keys": {"classifier.bias"}, "mismatched_keys": set()}

    monkeypatch.setattr(BertForSequenceClassification, "from_pretrained", load)
    assert "classifier.bias" in refusal(ModelFolderError, lambda: read_model(folder, TYPES))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda index: index["weight_map"].update(extra="../secret.safetensors"), "wrong file; got '../secret"),
        (lambda index: index["weight_map"].update(extra="/etc/passwd"), "wrong file; got '/etc/passwd'"),
        (lambda index: index["weight_map"].update(extra="a\\..\\b.safetensors"), "names a wrong file"),
        (lambda index: index["weight_map"].update(extra=".."), "names a wrong file"),
        (lambda index: index["weight_map"].update(extra="weights.bin"), "weights.bin"),
        (lambda index: index["weight_map"].update(extra="absent.safetensors"), "absent.safetensors"),
        (lambda index: index["weight_map"].update(extra=3), "has no weight_map"),
        (lambda index: index.update(weight_map=["model"]), "has no weight_map"),
        (lambda index: index.update(weight_map={}), "2 layers, 0 tensors"),
        (lambda index: index["weight_map"].pop("classifier.bias"), "disagree about 'classifier.bias'"),
    ],
)
@pytest.mark.usefixtures("never_loaded")
def test_a_bad_index_is_refused(change: Callable[[Any], object], named: str, tmp_path: Path) -> None:
    saved(BertForSequenceClassification(BertConfig(**SIZES)), tmp_path / "model", max_shard_size="5KB")
    shutil.copy(next((tmp_path / "model").glob("*.safetensors")), tmp_path / "secret.safetensors")
    path = tmp_path / "model" / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))
    assert named in refusal(ModelFolderError, lambda: read_model(tmp_path / "model", TYPES))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_are_refused_or_harmless(good: Path, tmp_path: Path, data: st.DataObject) -> None:
    folder = Path(shutil.copytree(good, tmp_path / "model", dirs_exist_ok=True))
    name = data.draw(st.sampled_from(["config.json", "model.safetensors"]))
    content = bytearray((good / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, min(len(content), 4000) - 1))] = data.draw(st.integers(0, 255))
    (folder / name).write_bytes(content)
    message = ""
    try:
        model = read_model(folder, TYPES)
    except PowerBertError as error:
        message = str(error)
    else:
        assert sum(tensor.numel() for tensor in model.parameters()) < 20_000
    assert "\n" not in message
