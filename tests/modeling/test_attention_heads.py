"""Heads that are taken out. Oracle: the full model with the values of those heads multiplied by zero."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from model_folders import refusal
from models import FAMILIES, batch_of, tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.bench.arms import flops
from powerbert.errors import ModelFolderError, UnsupportedModelError
from powerbert.folders.manifest import folder_digest
from powerbert.modeling.apply import unpad
from powerbert.modeling.attention_heads import all_heads, fewer_heads, heads_outputs, retain_heads
from powerbert.tasks.registry import find_task
from powerbert.training.heads import model_for

RETAINED = ([0, 2], [1], [0, 1, 2, 3], [3])
SERVED = ("bert", "roberta", "xlm-roberta", "electra", "distilbert")


def without_the_others(model, retained):
    """The oracle: the columns that read the other heads' values are zero."""
    size = model.config.hidden_size // model.config.num_attention_heads
    with torch.no_grad():
        for layer, own in zip(heads_outputs(model), retained, strict=True):
            for head in {0, 1, 2, 3} - {*own}:
                layer.weight[:, head * size : (head + 1) * size] = 0
    return model


@pytest.mark.parametrize("family", SERVED)
def test_a_model_without_heads_answers_as_if_their_values_were_zero(family):
    batch = batch_of([9, 5, 12], pad=tiny(family).config.pad_token_id or 0)
    expected = without_the_others(tiny(family), RETAINED)
    found = retain_heads(tiny(family), RETAINED)
    assert all_heads(found) == fewer_heads(found) == (2, 1, 4, 1)
    with torch.no_grad():
        torch.testing.assert_close(found(**batch).logits, expected(**batch).logits, atol=1e-5, rtol=1e-4)
        unpadded = unpad(found)(**batch).logits  # in the loop of this project
        torch.testing.assert_close(unpadded, expected(**batch).logits, atol=1e-5, rtol=1e-4)


def test_weights_and_work_are_really_gone():
    full, fewer = tiny("bert"), retain_heads(tiny("bert"), RETAINED)
    hidden, size, gone = 24, 6, 16 - 8
    one_head = 3 * (hidden * size + size) + size * hidden  # three projections with their biases, one output
    count = [sum(weight.numel() for weight in model.parameters()) for model in (full, fewer)]
    assert count[0] - count[1] == gone * one_head
    length = 8
    products = 4 * hidden * size * length + 2 * size * length**2  # of one head on one input
    assert flops(full, 1, length) - flops(fewer, 1, length) == gone * 2 * products


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in SERVED])
def test_a_family_whose_heads_cannot_go_by_themselves_is_refused(family):
    assert fewer_heads(tiny(family)) == ()
    message = refusal(UnsupportedModelError, lambda: retain_heads(tiny(family), RETAINED))
    assert "possible in bert, roberta" in message


@pytest.fixture
def saved(tmp_path):
    model = retain_heads(tiny("bert"), RETAINED)
    powerbert.save(model, tokenizer_for(), tmp_path / "model")
    return model, tmp_path / "model"


def test_a_folder_loads_with_fewer_heads_and_plain_transformers_answers_the_same(saved):
    model, folder = saved
    loaded, _ = powerbert.load(folder)
    assert all_heads(loaded) == (2, 1, 4, 1)
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name
    plain = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    batch = batch_of([9, 5, 12])
    with torch.no_grad():
        torch.testing.assert_close(plain(**batch).logits, model(**batch).logits, atol=1e-5, rtol=1e-4)
        for each in (plain, model):  # a head of zeros sees all words alike, so its vote changes no rank
            powerbert.apply(each, RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2)))
        torch.testing.assert_close(plain(**batch).logits, model(**batch).logits, atol=1e-5, rtol=1e-4)
    assert json.loads((folder / "powerbert.json").read_text())["heads"] == [2, 1, 4, 1]


def test_the_number_of_heads_names_the_model(saved, tmp_path):
    _, folder = saved
    powerbert.save(tiny("bert"), tokenizer_for(), tmp_path / "full")
    assert "heads" not in json.loads((tmp_path / "full" / "powerbert.json").read_text())
    before = folder_digest(folder)
    manifest = json.loads((folder / "powerbert.json").read_text())
    (folder / "powerbert.json").write_text(json.dumps(manifest | {"heads": [2, 1, 4, 2]}))
    assert folder_digest(folder) != before


@pytest.mark.parametrize("wrong", [[2, 1, 4], [2, 1, 4, 0], [2, 1, 4, 5], [2, 1, 4, True], "2", {"0": 1}])
def test_wrong_numbers_in_a_folder_are_one_line(saved, wrong):
    _, folder = saved
    manifest = json.loads((folder / "powerbert.json").read_text())
    (folder / "powerbert.json").write_text(json.dumps(manifest | {"heads": wrong}))
    assert "unknown heads" in refusal(ModelFolderError, lambda: powerbert.load(folder))


def test_a_new_task_begins_with_the_same_heads(saved):
    model, folder = saved
    headed, _, had = model_for(folder, find_task("SST-2"), seed=0)
    assert not had
    assert all_heads(headed) == (2, 1, 4, 1)
    assert torch.equal(
        headed.bert.encoder.layer[1].attention.self.key.weight, model.bert.encoder.layer[1].attention.self.key.weight
    )
