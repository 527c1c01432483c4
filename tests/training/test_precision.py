"""bf16 training where the machine has it, fp32 where it only pretends to."""

from __future__ import annotations

import json

import pytest
import torch
from runs import pretrained, small_data

from powerbert.machine.child import BF16, survives
from powerbert.modeling.storage import load
from powerbert.training import Options, finetune
from powerbert.training.evaluation import evaluate


def trained(folder, precision):
    options = Options(epochs=1, batch_size=8, accumulation=1, precision=precision)
    made = finetune(folder / "encoder", small_data(), folder / precision, options)
    return load(made.folder)[0].state_dict()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("precision")
    pretrained(folder / "encoder")
    return folder


def test_bf16_that_would_crash_is_replaced_by_fp32_and_told(folder, monkeypatch, caplog):
    monkeypatch.setattr("powerbert.training.runner.survives", lambda code: False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    replaced = trained(folder, "bf16")
    assert sum("bf16 does not run on this machine" in line for line in caplog.messages) == 1
    plain = trained(folder, "fp32")  # the oracle: the same run in fp32
    assert all(torch.equal(replaced[name], plain[name]) for name in plain)
    asked = json.loads((folder / "bf16" / "run.json").read_text())["settings"]["options"]["precision"]
    assert asked == "bf16"  # what decides a resume is what was asked


@pytest.mark.skipif(not survives(BF16), reason="bf16 does not run on this machine")
def test_bf16_changes_the_products_of_training_and_leaves_fp32_weights(tmp_path):
    pretrained(tmp_path / "encoder")
    half, plain = trained(tmp_path, "bf16"), trained(tmp_path, "fp32")
    assert all(tensor.dtype == torch.float32 for tensor in half.values())
    assert any(not torch.equal(half[name], plain[name]) for name in plain)
    for name in plain:
        torch.testing.assert_close(half[name], plain[name], atol=2e-3, rtol=0)


@pytest.mark.skipif(not survives(BF16), reason="bf16 does not run on this machine")
def test_what_is_reported_after_bf16_training_is_the_saved_model_in_fp32(tmp_path, monkeypatch):
    """Oracle: the folder, loaded and evaluated anew, gives the very logits that were judged."""
    judged = {}

    def spy(model, split, task, tokenizer):
        judged["logits"] = model(**probe).logits
        return evaluate(model, split, task, tokenizer)

    probe = {
        "input_ids": torch.tensor([[2, 7, 8, 9, 3]]),
        "attention_mask": torch.ones(1, 5, dtype=torch.long),
    }
    pretrained(tmp_path / "encoder")
    monkeypatch.setattr("powerbert.training.runner.evaluate", spy)
    options = Options(epochs=1, batch_size=8, accumulation=1, precision="bf16")
    saved, _ = load(finetune(tmp_path / "encoder", small_data(), tmp_path / "one", options).folder)
    assert torch.equal(judged["logits"], saved(**probe).logits)
