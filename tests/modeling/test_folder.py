"""Reading a model folder: what is well formed loads bit for bit, what is not is refused in one line.

The oracle for a good folder is the state dict that was saved. Bad folders are made from a good one by one
change each, and from_pretrained is replaced so that a refusal after it was called fails the test.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    BertTokenizer,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedModel,
)
from transformers.utils import logging

from powerbert.errors import ModelFolderError, PowerBertError, UnsupportedModelError
from powerbert.modeling.folder import read_model, read_tokenizer, write_folder

TYPES = ("albert", "bert", "distilbert")
SHARED = Path(os.environ.get("POWERBERT_SHARED", Path(__file__).parents[3] / "shared"))
GTE = SHARED / "models" / "gte-small"
SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 20,
}


def saved(model: PreTrainedModel, folder: Path, **options: Any) -> dict[str, torch.Tensor]:
    """Save a model and return the weights that reading it must give back."""
    model.save_pretrained(folder, **options)
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_same_bits(model: PreTrainedModel, expected: dict[str, torch.Tensor]) -> None:
    found = model.state_dict()
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == torch.float32
        assert torch.equal(found[name].view(torch.int32), tensor.float().view(torch.int32)), name


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    torch.manual_seed(0)
    saved(BertForSequenceClassification(BertConfig(**SIZES)), folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "model"))


@pytest.fixture
def never_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if weights are about to be loaded: a refusal comes before."""

    def fail(*args: object, **kwargs: object) -> None:
        pytest.fail("from_pretrained was called")

    monkeypatch.setattr(PreTrainedModel, "from_pretrained", fail)


def refusal(kind: type[PowerBertError], call: Callable[[], object]) -> str:
    """Return the message of a refusal, which is one line."""
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 1000
    return message


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def edit_header(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


def edit_bytes(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


# ---- what loads --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        BertForSequenceClassification(BertConfig(**SIZES, num_labels=3)),
        BertModel(BertConfig(**SIZES)),
        BertModel(BertConfig(**SIZES), add_pooling_layer=False),
        BertForMaskedLM(BertConfig(**SIZES)),
        AlbertForSequenceClassification(AlbertConfig(**SIZES | {"num_hidden_layers": 40}, embedding_size=8)),
        DistilBertForSequenceClassification(
            DistilBertConfig(vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=32)
        ),
        DistilBertForSequenceClassification(
            DistilBertConfig(
                vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=32, sinusoidal_pos_embds=True
            )
        ),
    ],
    ids=[
        "bert",
        "bert-base",
        "bert-no-pooler",
        "bert-tied",
        "albert-shared",
        "distilbert",
        "distilbert-sinusoidal",
    ],
)
def test_a_saved_model_reads_back_bit_for_bit(model: PreTrainedModel, tmp_path: Path) -> None:
    expected = saved(model.train(), tmp_path)
    found = read_model(tmp_path, TYPES)
    assert type(found) is type(model)
    assert not found.training
    assert found.config.to_diff_dict() | {"dtype": None} == model.config.to_diff_dict() | {"dtype": None}
    assert_same_bits(found, expected)
    words = torch.arange(5, 12)[None]
    assert torch.equal(found(words)[0], model.eval()(words)[0])


def test_a_model_does_not_depend_on_its_file_any_more(folder: Path) -> None:
    expected = {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}
    model = read_model(folder, TYPES)
    with (folder / "model.safetensors").open("r+b") as file:
        file.write(bytes((folder / "model.safetensors").stat().st_size))
    assert_same_bits(model, expected)


def test_a_string_is_a_folder_too(good: Path) -> None:
    assert_same_bits(read_model(str(good), TYPES), load_file(good / "model.safetensors"))


def test_shards_read_back_bit_for_bit(tmp_path: Path) -> None:
    expected = saved(BertForSequenceClassification(BertConfig(**SIZES)), tmp_path, max_shard_size="5KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert_same_bits(read_model(tmp_path, TYPES), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_float_types_are_read_as_fp32(dtype: torch.dtype, tmp_path: Path) -> None:
    expected = saved(BertForSequenceClassification(BertConfig(**SIZES)).to(dtype), tmp_path)
    model = read_model(tmp_path, TYPES)
    assert model.dtype == model.config.dtype == torch.float32
    assert_same_bits(model, expected)


def test_legacy_names_and_buffers_are_understood(folder: Path) -> None:
    expected = load_file(folder / "model.safetensors")

    def age(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if "LayerNorm" in name]:
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )
            tensors[old] = tensors.pop(name)
        tensors["bert.embeddings.position_ids"] = torch.arange(20)[None]
        tensors["bert.embeddings.token_type_ids"] = torch.zeros(1, 20, dtype=torch.int64)

    edit_weights(folder, age)
    assert_same_bits(read_model(folder, TYPES), expected)


def test_heads_of_pretraining_left_in_the_file_are_passed_over(tmp_path: Path) -> None:
    """The bert-base-uncased of the hub is a BertForMaskedLM with a next-sentence head and a pooler."""
    expected = saved(BertForMaskedLM(BertConfig(**SIZES)), tmp_path)

    def leave(tensors: dict[str, torch.Tensor]) -> None:
        tensors["cls.seq_relationship.weight"] = torch.zeros(2, 16)
        tensors["bert.pooler.dense.weight"] = torch.zeros(16, 16)

    edit_weights(tmp_path, leave)
    assert_same_bits(read_model(tmp_path, TYPES), expected)


def test_a_tied_weight_may_be_stored_under_its_other_name(tmp_path: Path) -> None:
    expected = saved(BertForMaskedLM(BertConfig(**SIZES)), tmp_path)

    def swap(tensors: dict[str, torch.Tensor]) -> None:
        tensors["cls.predictions.decoder.weight"] = tensors.pop("bert.embeddings.word_embeddings.weight")

    edit_weights(tmp_path, swap)
    assert_same_bits(read_model(tmp_path, TYPES), expected)


@pytest.mark.skipif(not GTE.is_dir(), reason=f"{GTE} is absent: set POWERBERT_SHARED")
def test_gte_small_reads_as_fp32_with_twelve_layers_and_no_pooler() -> None:
    model = read_model(GTE, TYPES)
    assert isinstance(model, BertModel)
    assert model.pooler is None
    assert len(model.encoder.layer) == 12
    assert_same_bits(model, load_file(GTE / "model.safetensors"))
    assert read_tokenizer(GTE)("hello world")["input_ids"] == [101, 7592, 2088, 102]


def test_settings_of_the_caller_are_untouched(good: Path, capfd: pytest.CaptureFixture[str]) -> None:
    verbosity, bars, state = logging.get_verbosity(), logging.is_progress_bar_enabled(), torch.get_rng_state()
    calls: list[object] = []
    logging.set_verbosity_info()
    previous = logging.set_tqdm_hook(lambda factory, args, kwargs: calls.append(args))
    try:
        read_model(good, TYPES)
        assert logging.get_verbosity() == logging.INFO
    finally:
        logging.set_verbosity(verbosity)
        hook = logging.set_tqdm_hook(previous)
    assert not calls
    assert hook is not None
    assert hook(None, (), {}) is None
    assert len(calls) == 1
    assert logging.is_progress_bar_enabled() is bars
    assert torch.equal(torch.get_rng_state(), state)
    assert capfd.readouterr() == ("", "")


def test_reading_never_goes_online(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("getaddrinfo", "create_connection", "socket"):
        monkeypatch.setattr(socket, name, lambda *args, **kwargs: pytest.fail("it went online"))
    read_model(good, TYPES)
    read_tokenizer(good)


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "_experts_implementation"])
def test_an_attention_kernel_named_in_the_config_is_not_fetched(folder: Path, key: str) -> None:
    edit_config(folder, **{key: "someone/kernel"})
    assert read_model(folder, TYPES).config._attn_implementation in ("sdpa", "eager")


# ---- what is refused: config.json --------------------------------------------------------


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "nowhere is not a folder" in refusal(
        ModelFolderError, lambda: read_model(tmp_path / "nowhere", TYPES)
    )
    assert "nowhere is not a folder" in refusal(
        ModelFolderError, lambda: read_tokenizer(tmp_path / "nowhere")
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (None, "is missing"),
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[1]", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b'{"model_type": "bert", "model_type": "bert"}', "given twice"),
        (b'{"model_type": NaN}', "not valid JSON"),
        (b"[" * 200_000, "not valid JSON"),
        (b" " * 1_000_001, "too large"),
    ],
    ids=["missing", "empty", "cut", "list", "bytes", "duplicate", "nan", "deep", "large"],
)
@pytest.mark.usefixtures("never_loaded")
def test_a_config_that_is_no_small_json_object_is_refused(
    folder: Path, text: bytes | None, named: str
) -> None:
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
    edit_config(
        folder, hidden_size=96_000, num_attention_heads=2, vocab_size=9_000_000, intermediate_size=90_000
    )
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
    monkeypatch.setattr(
        distilbert, "create_sinusoidal_embeddings", lambda **sizes: pytest.fail("a slow loop")
    )
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
def test_a_config_that_asks_for_more_than_a_plain_model_is_refused(
    folder: Path, key: str, value: object
) -> None:
    edit_config(folder, **{key: value})
    assert f"config.json has {key}" in refusal(ModelFolderError, lambda: read_model(folder, TYPES))
    assert f"config.json has {key}" in refusal(ModelFolderError, lambda: read_tokenizer(folder))


@pytest.mark.parametrize(
    "changes", [{"hidden_act": "no"}, {"pad_token_id": 99}, {"layer_norm_eps": "x"}], ids=repr
)
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
    "cut in the header": (
        lambda f: edit_bytes(f / "model.safetensors", lambda data: data[:99]),
        "is damaged",
    ),
    "trailing bytes": (
        lambda f: edit_bytes(f / "model.safetensors", lambda data: data + b"\0"),
        "is damaged",
    ),
    "empty": (lambda f: edit_bytes(f / "model.safetensors", lambda data: b""), "is damaged"),
    "absurd header length": (
        lambda f: edit_bytes(f / "model.safetensors", lambda data: b"\xff" * 8 + data[8:]),
        "a header of 18,446,744,073,709,551,615 bytes",
    ),
    "header not JSON": (
        lambda f: edit_bytes(f / "model.safetensors", lambda data: data[:8] + b"[" + data[9:]),
        "not valid JSON",
    ),
    "negative offset": (
        lambda f: edit_header(f, lambda h: first_tensor(h, data_offsets=[-64, 0])),
        "bert.pooler.dense.bias",
    ),
    "overlap": (lambda f: edit_header(f, lambda h: first_tensor(h, data_offsets=[0, 64])), "is damaged"),
    "offsets unlike the shape": (
        lambda f: edit_header(f, lambda h: first_tensor(h, shape=[15])),
        "bert.pooler.dense.bias",
    ),
    "shape of floats": (
        lambda f: edit_header(f, lambda h: first_tensor(h, shape=[16.0])),
        "bert.pooler.dense.bias",
    ),
    "unknown dtype": (lambda f: edit_header(f, lambda h: first_tensor(h, dtype="F8_E4M3")), "F8_E4M3"),
    "whole numbers as weight": (lambda f: edit_header(f, lambda h: first_tensor(h, dtype="I32")), "I32 [16]"),
    "entry is no object": (lambda f: edit_header(f, lambda h: h.update(extra=3)), "'extra'"),
    "missing tensor": (
        lambda f: edit_weights(f, lambda t: t.pop("classifier.bias")),
        "lack 'classifier.bias'",
    ),
    "four missing tensors": (
        lambda f: edit_weights(
            f, lambda t: [t.pop(n) for n in list(t) if "pooler" in n or "classifier" in n]
        ),
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
        (
            lambda index: index["weight_map"].update(extra="../secret.safetensors"),
            "wrong file; got '../secret",
        ),
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


# ---- the tokenizer -----------------------------------------------------------------------


def test_the_tokenizer_reads_back(good: Path) -> None:
    tokenizer = read_tokenizer(good)
    assert tokenizer.is_fast
    assert tokenizer("good bad")["input_ids"] == [2, 5, 6, 3]


def test_the_vocabulary_alone_makes_a_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    (folder / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"])
    )
    assert read_tokenizer(folder)("good bad")["input_ids"] == [2, 5, 6, 3]


def test_a_folder_without_vocabulary_has_no_tokenizer(folder: Path) -> None:
    for path in (*folder.glob("tokenizer*"), *folder.glob("vocab*")):
        path.unlink()
    message = refusal(ModelFolderError, lambda: read_tokenizer(folder))
    assert "has no fast tokenizer" in message
    assert "tokenizer.save_pretrained" in message


def test_remote_code_in_the_tokenizer_is_refused(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"auto_map": {"AutoTokenizer": ["code.T", None]}})
    )
    assert "tokenizer_config.json has auto_map" in refusal(ModelFolderError, lambda: read_tokenizer(folder))


def test_a_damaged_tokenizer_is_told_in_one_line(folder: Path) -> None:
    edit_bytes(folder / "tokenizer.json", lambda data: data[:50])
    assert "the tokenizer in" in refusal(ModelFolderError, lambda: read_tokenizer(folder))


# ---- writing -----------------------------------------------------------------------------


def write_model(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps({"model_type": "bert", "text": text}))

    return write


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_is_written_with_its_parents(tmp_path: Path) -> None:
    write_folder(tmp_path / "new" / "model", write_model("one"))
    assert json.loads((tmp_path / "new" / "model" / "config.json").read_text())["text"] == "one"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model"]


def test_files_and_folders_are_on_disk_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.add(os.fstat(handle).st_ino))
    write_folder(tmp_path / "model", write_model("one"))
    parts = (tmp_path / "model" / "config.json", tmp_path / "model", tmp_path)
    assert flushed >= {path.stat().st_ino for path in parts}


@pytest.mark.parametrize("link", [False, True])
def test_an_earlier_model_is_replaced_whole(tmp_path: Path, link: bool) -> None:
    target = tmp_path / "model"
    write_folder(target, write_model("one"))
    (target / "stale.safetensors").write_text("stale")
    if link:
        (tmp_path / "link").symlink_to(target)
    write_folder(tmp_path / "link" if link else str(target), write_model("two"))
    assert contents(target).keys() == {"config.json"}
    assert json.loads((target / "config.json").read_text())["text"] == "two"
    assert {path.name for path in tmp_path.iterdir()} == ({"model", "link"} if link else {"model"})


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    write_folder(tmp_path / "model", write_model("one"))
    assert contents(tmp_path / "model").keys() == {"config.json"}


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), ValueError("no")], ids=repr)
@pytest.mark.parametrize("earlier", [False, True])
def test_a_failure_leaves_what_was_there(tmp_path: Path, error: BaseException, earlier: bool) -> None:
    if earlier:
        write_folder(tmp_path / "model", write_model("one"))
    before = contents(tmp_path)

    def fail(folder: Path) -> None:
        write_model("two")(folder)
        raise error

    with pytest.raises(type(error)):
        write_folder(tmp_path / "model", fail)
    assert contents(tmp_path) == before
    assert len(list(tmp_path.iterdir())) == earlier


@pytest.mark.parametrize("error", [OSError("busy"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("renames", [0, 1])
def test_a_failure_while_renaming_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, renames: int
) -> None:
    write_folder(tmp_path / "model", write_model("one"))
    before, rename, left = contents(tmp_path), Path.rename, [renames]

    def failing(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] == -1:
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(ModelFolderError if isinstance(error, OSError) else type(error)):
        write_folder(tmp_path / "model", write_model("two"))
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(
    "files",
    [
        {"notes.txt": "mine"},
        {"config.json": "{}"},
        {"config.json": "mine"},
        {"config.json": '{"model_type": "bert"}', "checkpoint-5/model.safetensors": "mine"},
    ],
    ids=["files", "other config", "broken config", "sub-folder"],
)
def test_a_folder_that_is_no_plain_model_is_never_replaced(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_text(text)
    message = refusal(ModelFolderError, lambda: write_folder(tmp_path / "mine", write_model("two")))
    assert str(tmp_path / "mine") in message
    assert contents(tmp_path / "mine") == files
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    refusal(ModelFolderError, lambda: write_folder(tmp_path / "file", write_model("two")))
    assert "cannot be written" in refusal(
        ModelFolderError, lambda: write_folder(tmp_path / "file" / "model", write_model("two"))
    )
    assert contents(tmp_path) == {"file": "mine"}


def test_files_that_appear_during_writing_are_not_deleted(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "notes.txt").write_text("mine")

    refusal(ModelFolderError, lambda: write_folder(tmp_path / "model", write))
    assert contents(tmp_path) == {"model/notes.txt": "mine"}
