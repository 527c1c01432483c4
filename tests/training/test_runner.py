"""bf16 training where the machine has it, fp32 where it only pretends to."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from runs import pretrained, small_data

from powerbert.machine import verdicts
from powerbert.machine.probes import TRAINING
from powerbert.machine.verdicts import CRASHES, WORKS, Verdict, probe
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


@pytest.mark.parametrize(
    ("verdict", "why"),
    [
        (Verdict(*TRAINING, CRASHES, detail="died with SIGILL"), "does not run on this machine"),
        (Verdict(*TRAINING, WORKS, 14.0, 0.09), "is slower than fp32"),
    ],
)
def test_bf16_that_would_crash_or_is_slower_is_replaced_by_fp32_and_told(folder, monkeypatch, caplog, verdict, why):
    monkeypatch.setattr(verdicts, "probe", lambda *pair: verdict)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    shutil.rmtree(folder / "bf16", ignore_errors=True)
    replaced = trained(folder, "bf16")
    assert sum(f"bf16 in training {why}" in line for line in caplog.messages) == 1
    plain = trained(folder, "fp32")  # the oracle: the same run in fp32
    assert all(torch.equal(replaced[name], plain[name]) for name in plain)
    asked = json.loads((folder / "bf16" / "run.json").read_text())["settings"]["options"]["precision"]
    assert asked == "bf16"  # what decides a resume is what was asked


@pytest.fixture
def bf16(monkeypatch):
    """Train in bf16 wherever it runs, also where it is slower than fp32."""
    if not probe(*TRAINING).runs:
        pytest.skip("bf16 does not run on this machine")
    monkeypatch.setattr(verdicts, "probe", lambda *pair: Verdict(*pair, WORKS, 100.0, 2.0))


@pytest.mark.usefixtures("bf16")
def test_bf16_changes_the_products_of_training_and_leaves_fp32_weights(tmp_path):
    pretrained(tmp_path / "encoder")
    half, plain = trained(tmp_path, "bf16"), trained(tmp_path, "fp32")
    assert all(tensor.dtype == torch.float32 for tensor in half.values())
    assert any(not torch.equal(half[name], plain[name]) for name in plain)
    for name in plain:
        torch.testing.assert_close(half[name], plain[name], atol=2e-3, rtol=0)


@pytest.mark.usefixtures("bf16")
def test_what_is_reported_after_bf16_training_is_the_saved_model_in_fp32(tmp_path, monkeypatch):
    """Oracle: the folder, loaded and evaluated anew, gives the very logits that were judged."""
    judged = {}

    def spy(model, split, task, tokenizer):
        judged["logits"] = model(**probe).logits
        return evaluate(model, split, task, tokenizer)

    probe = {"input_ids": torch.tensor([[2, 7, 8, 9, 3]]), "attention_mask": torch.ones(1, 5, dtype=torch.long)}
    pretrained(tmp_path / "encoder")
    monkeypatch.setattr("powerbert.training.runner.evaluate", spy)
    options = Options(epochs=1, batch_size=8, accumulation=1, precision="bf16")
    saved, _ = load(finetune(tmp_path / "encoder", small_data(), tmp_path / "one", options).folder)
    assert torch.equal(judged["logits"], saved(**probe).logits)
