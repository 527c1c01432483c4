"""The activation of a CrossEncoder in every format of its folder. Oracle: sentence-transformers on the same folder."""

from __future__ import annotations

import json

import pytest
import torch
from model_folders import edit_config, refusal
from models import tiny
from rerankers import ACTIVATIONS, cross_encoder, oracle
from texts import tokenizer_for
from transformers import BertConfig

import powerbert
from powerbert.errors import ModelFolderError, UnsupportedModelError
from powerbert.folders.cross_encoder import activation_of, forget_activation
from powerbert.folders.manifest import folder_digest
from powerbert.tasks.registry import own_task
from powerbert.training.heads import model_for


@pytest.fixture
def plain(tmp_path):
    """A folder of transformers alone, of one label."""
    tiny("bert", num_labels=1).save_pretrained(tmp_path / "plain")
    tokenizer_for().save_pretrained(tmp_path / "plain")
    return tmp_path / "plain"


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


ENTRIES = {
    "sigmoid": {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid", "version": "4.0.1"}},
    "none": {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
    "short": {"sentence_transformers": {"activation_fn": "torch.nn.Identity"}},
    "both": {"sentence_transformers": {"activation_fn": "torch.nn.Identity"}}
    | {"sbert_ce_default_activation_function": "torch.nn.Sigmoid"},
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_entries_of_config_json_are_read_as_sentence_transformers_reads_them(plain, entry):
    edit_config(plain, **ENTRIES[entry])
    model, _ = powerbert.load(plain)
    assert isinstance(oracle(plain).activation_fn, ACTIVATIONS[activation_of(model.config)])


def test_a_folder_without_an_activation_names_none(plain):
    assert activation_of(powerbert.load(plain)[0].config) is None
    assert isinstance(oracle(plain).activation_fn, torch.nn.Sigmoid)  # and so does the pipeline of a one-label model


def test_the_folder_of_today_wins_over_config_json_and_has_a_digest_of_its_own(tmp_path):
    folder = cross_encoder(tmp_path, "none")
    before = folder_digest(folder)
    edit_config(folder, **ENTRIES["sigmoid"])
    assert activation_of(powerbert.load(folder)[0].config) == "none"
    assert isinstance(oracle(folder).activation_fn, torch.nn.Identity)
    edit(folder / "config_sentence_transformers.json", activation_fn="torch.nn.Sigmoid")
    assert activation_of(powerbert.load(folder)[0].config) == "sigmoid"
    edit_config(folder, sentence_transformers=None)
    assert folder_digest(folder) != before


@pytest.mark.parametrize(
    "path", ["torch.nn.modules.activation.Tanh", "os.system", "own.Sigmoid", "torch.nn.Sigmoid()", 3]
)
def test_an_unknown_activation_is_refused(plain, path):
    edit_config(plain, sentence_transformers={"activation_fn": path})
    assert "unknown activation" in refusal(UnsupportedModelError, lambda: powerbert.load(plain))


def test_what_changes_text_or_score_is_refused(tmp_path, plain):
    folder = cross_encoder(tmp_path)
    settings, module = folder / "config_sentence_transformers.json", folder / "sentence_bert_config.json"
    edit(settings, prompts={"query": "find: "})
    powerbert.load(folder)  # one that nobody asks for changes nothing
    edit(settings, default_prompt_name="query")
    assert "prompt" in refusal(UnsupportedModelError, lambda: powerbert.load(folder))
    edit(settings, default_prompt_name=None)
    edit(module, do_lower_case=True)
    assert "do_lower_case" in refusal(UnsupportedModelError, lambda: powerbert.load(folder))
    modules = folder / "modules.json"
    modules.write_text(json.dumps([{}, {}]))
    assert "other modules" in refusal(UnsupportedModelError, lambda: powerbert.load(folder))
    modules.write_text("[")
    assert "not valid JSON" in refusal(ModelFolderError, lambda: powerbert.load(folder))
    edit_config(plain, sentence_transformers=["torch.nn.Sigmoid"])
    assert "no object" in refusal(ModelFolderError, lambda: powerbert.load(plain))


def test_a_new_head_has_no_activation(tmp_path):
    """It is of another task, which says itself what becomes of the logits."""
    folder = cross_encoder(tmp_path, "sigmoid")
    task = own_task("text", None, labels=["bad", "good"], kind="classification", name="reviews")
    model, _, headed = model_for(folder, task, seed=0)
    assert not headed
    assert activation_of(model.config) is None


def test_forgetting_is_of_both_entries():
    config = BertConfig(**ENTRIES["both"])
    forget_activation(config)
    assert activation_of(config) is None
    forget_activation(config)
