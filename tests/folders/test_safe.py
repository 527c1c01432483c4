"""Reading a model folder: what loads, and that it loads bit for bit."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from model_folders import GTE, SIZES, TYPES, assert_same_bits, edit_bytes, edit_config, edit_weights, refusal, saved
from safetensors.torch import load_file
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedModel,
)
from transformers.utils import logging

from powerbert.errors import ModelFolderError
from powerbert.folders import safe
from powerbert.folders.safe import read_model, read_tokenizer, silenced

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
            DistilBertConfig(vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=32, sinusoidal_pos_embds=True)
        ),
    ],
    ids=["bert", "bert-base", "bert-no-pooler", "bert-tied", "albert-shared", "distilbert", "distilbert-sinusoidal"],
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
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
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


def test_overlapping_readers_leave_the_settings_of_the_caller(good: Path) -> None:
    """The first to begin is the first to end: it must not put back what the second one found."""
    verbosity, hook = logging.get_verbosity(), logging.set_tqdm_hook(None)
    logging.set_tqdm_hook(hook)
    begun, ended = threading.Event(), threading.Event()

    def first() -> None:
        with silenced():
            begun.set()
            ended.wait(60)

    thread = threading.Thread(target=first)
    thread.start()
    begun.wait(60)
    with silenced():
        ended.set()
        thread.join(60)
        assert logging.get_verbosity() == 50
    assert logging.get_verbosity() == verbosity
    assert logging.set_tqdm_hook(hook) is hook
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: read_model(good, TYPES), range(8)))
    assert logging.get_verbosity() == verbosity


def test_threads_load_one_after_another(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Overlapping, they would leave transformers without tied weights in the whole process."""
    ties, load, now, most = PreTrainedModel.tie_weights, safe._load, [], []

    def slow(*given: Any) -> PreTrainedModel:
        now.append(1)
        time.sleep(0.05)
        most.append(len(now))
        loaded = load(*given)
        now.pop()
        return loaded

    monkeypatch.setattr(safe, "_load", slow)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: read_model(good, TYPES), range(8)))
    assert max(most) == 1
    assert PreTrainedModel.tie_weights is ties


def test_reading_never_goes_online(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the hub allowed, which the tests as a whole forbid, and no way to it."""
    tries: list[object] = []

    def refuse(*args: object, **kwargs: object) -> None:
        tries.append(args)
        pytest.fail("it went online")  # no Exception: the hub would try again and again

    for name in ("getaddrinfo", "create_connection", "socket"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(pytest.fail.Exception):
        AutoTokenizer.from_pretrained("somebody/a-model-of-the-hub")
    assert tries  # whoever goes online is seen
    tries.clear()
    read_model(good, TYPES)
    read_tokenizer(good)
    assert not tries


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "_experts_implementation"])
def test_an_attention_kernel_named_in_the_config_is_not_fetched(folder: Path, key: str) -> None:
    edit_config(folder, **{key: "someone/kernel"})
    assert read_model(folder, TYPES).config._attn_implementation in ("sdpa", "eager")


# ---- the tokenizer -----------------------------------------------------------------------


def test_the_tokenizer_reads_back(good: Path) -> None:
    tokenizer = read_tokenizer(good)
    assert tokenizer.is_fast
    assert tokenizer("good bad")["input_ids"] == [2, 5, 6, 3]


def test_the_vocabulary_alone_makes_a_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]))
    assert read_tokenizer(folder)("good bad")["input_ids"] == [2, 5, 6, 3]


def test_a_folder_without_vocabulary_has_no_tokenizer(folder: Path) -> None:
    for path in (*folder.glob("tokenizer*"), *folder.glob("vocab*")):
        path.unlink()
    message = refusal(ModelFolderError, lambda: read_tokenizer(folder))
    assert "has no fast tokenizer" in message
    assert "tokenizer.save_pretrained" in message


def test_remote_code_in_the_tokenizer_is_refused(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"auto_map": {"AutoTokenizer": ["code.T", None]}}))
    assert "tokenizer_config.json has auto_map" in refusal(ModelFolderError, lambda: read_tokenizer(folder))


@pytest.mark.parametrize("longest", [-1, 0, "many", None], ids=repr)
def test_a_tokenizer_that_reads_no_words_is_refused(folder: Path, longest: object) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": longest}))
    if longest is None:  # transformers takes it for no limit
        assert read_tokenizer(folder).model_max_length > 10**9
    else:
        assert "tokenizer in" in refusal(ModelFolderError, lambda: read_tokenizer(folder))


def test_a_damaged_tokenizer_is_told_in_one_line(folder: Path) -> None:
    edit_bytes(folder / "tokenizer.json", lambda data: data[:50])
    assert "the tokenizer in" in refusal(ModelFolderError, lambda: read_tokenizer(folder))
