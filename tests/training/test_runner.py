"""bf16 training where the machine has it, fp32 where it only pretends to; whose folder it is; and the card."""

from __future__ import annotations

import json
import logging
import shutil

import pytest
import torch
from models import tiny
from runs import pretrained, small_data
from texts import tokenizer_for

import powerbert
from powerbert.errors import PowerBertError
from powerbert.machine import describe, verdicts
from powerbert.machine.probes import TRAINING
from powerbert.machine.verdicts import CRASHES, WORKS, Verdict, probe
from powerbert.modeling.storage import load
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.metrics import Interval
from powerbert.training import Options, finetune, runner
from powerbert.training.data import Evaluation, evaluate
from powerbert.training.runner import begin, check_place, command_line, model_card, read_run, run_record


def trained(folder, precision):
    options = Options(epochs=1, batch_size=8, accumulation=1, learning_rate=3e-5, precision=precision)
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
    record = json.loads((folder / "bf16" / "run.json").read_text())
    assert record["settings"]["options"]["precision"] == "bf16"  # what decides a resume is what was asked
    assert record["precision"] == "fp32"


@pytest.mark.parametrize(("ratios", "expected"), [((2.0, 0.09), "bf16"), ((0.09, 2.0), "fp32")])
def test_a_run_goes_on_in_the_precision_that_it_began_with(folder, tmp_path, monkeypatch, ratios, expected):
    """Whatever a probe finds later, on this machine or on another: no weight would be the same."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for ratio in ratios:
        monkeypatch.setattr(verdicts, "probe", lambda *pair, ratio=ratio: Verdict(*pair, WORKS, 100.0, ratio))
        with begin(
            "finetune",
            folder / "encoder",
            small_data(),
            tmp_path / "one",
            Options(precision="bf16"),
            32,
            progress=False,
        ) as run:
            assert run.options.precision == expected
        assert read_run(tmp_path / "one.partial")["precision"] == expected


@pytest.mark.parametrize(("busy", "expected"), [((0, 1), 2), ((1, 0), 1)])
def test_a_run_takes_the_free_cores_and_goes_on_with_as_many(folder, tmp_path, monkeypatch, busy, expected):
    """Another number of threads sums in another order; afterwards the caller has its own number again."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(describe, "own_cores", lambda: 2)
    for cores in busy:
        monkeypatch.setattr(describe, "busy_cores", lambda cores=cores: cores)
        with begin(
            "finetune", folder / "encoder", small_data(), tmp_path / "one", Options(), 32, progress=False
        ) as run:
            assert run.options.threads == torch.get_num_threads() == expected
        assert torch.get_num_threads() == 1
        assert read_run(tmp_path / "one.partial")["threads"] == expected


@pytest.mark.parametrize(("asked", "environment", "expected"), [(2, "3", 2), (None, "3", 3)])
def test_what_was_asked_for_and_the_environment_decide_over_free_cores(
    folder, tmp_path, monkeypatch, asked, environment, expected
):
    monkeypatch.setenv("OMP_NUM_THREADS", environment)
    with begin(
        "finetune", folder / "encoder", small_data(), tmp_path / "one", Options(threads=asked), 32, progress=False
    ) as run:
        assert run.options.threads == expected


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


def test_a_place_is_free_complete_or_anothers(tmp_path):
    work, output, settings = tmp_path / "o.partial", tmp_path / "o", {"step": "search", "seed": 1}
    assert check_place(work, output, settings) is False
    output.mkdir()
    assert check_place(work, output, settings) is False
    work.mkdir()
    (work / "run.json").write_text(json.dumps(run_record(settings, "fp32", 1)))
    assert check_place(work, output, settings) is False  # begun, and to be resumed
    with pytest.raises(PowerBertError, match=r"o.partial holds another run; got 'other seed'"):
        check_place(work, output, settings | {"seed": 2})
    (output / "run.json").write_text(json.dumps(run_record(settings, "fp32", 1)))
    assert check_place(work, output, settings) is True
    assert read_run(output)["versions"]["torch"]
    (output / "run.json").unlink()
    (output / "notes.txt").write_text("precious")
    with pytest.raises(PowerBertError, match="not empty"):
        check_place(work, output, settings)


@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        (RetentionConfiguration.relative((0.5, 0.25)), ("share of own length", "| retains | 0.5 | 0.25 |")),
        (RetentionConfiguration.absolute((9, 4), 16), ("word-vectors of N=16", "| retains | 9 | 4 |")),
    ],
)
def test_the_card_shows_metric_word_vectors_and_configuration(retention, expected):
    evaluation = Evaluation("f1", 0.875, Interval(0.8, 0.9), 408, 300, 1000)
    settings = {"task": "MRPC", "step": "retrain", "model": "two", "options": {"seed": 3}}
    card = model_card(settings, evaluation, retention)
    for part in ("the step `retrain` of powerbert from `two`, seed 3", "0.8750", "(30.0 %)", *expected):
        assert part in card
    assert "Retention" not in model_card(settings, evaluation, None)


def test_a_run_that_was_killed_at_once_goes_on_and_a_users_folder_is_left_alone(tmp_path):
    work, output = tmp_path / "o.partial", tmp_path / "o"
    work.mkdir()
    (work / ".lock").touch()
    (work / "run.json").write_text('{"settings": {')
    assert check_place(work, output, {"seed": 1}) is False
    (work / "notes.txt").write_text("precious")
    with pytest.raises(PowerBertError, match=r"o.partial is not empty"):
        check_place(work, output, {"seed": 1})


def test_the_command_is_that_of_the_project_or_of_a_script(monkeypatch):
    typed = {
        "bin/powerbert": "powerbert",
        "cli/__main__.py": "powerbert",
        "benchmarks/a b.py": "python 'benchmarks/a b.py'",
    }
    for program, expected in typed.items():
        monkeypatch.setattr("sys.argv", [program, "--seeds", "0,1"])
        assert command_line() == f"{expected} --seeds 0,1"


def test_long_inputs_are_trained_on_without_dropout_on_attention_and_that_is_told(tmp_path, monkeypatch, caplog):
    made = {}
    for name, long, forget in (("long", 1, 0.5), ("none", 128, 0.0), ("short", 128, 0.5)):
        monkeypatch.setattr(runner, "LONG", long)
        encoder = tiny("bert", "Model", attention_probs_dropout_prob=forget, hidden_dropout_prob=0.0)
        powerbert.save(encoder, tokenizer_for(), tmp_path / f"{name}-encoder")
        options = Options(epochs=1, batch_size=8, accumulation=1, learning_rate=3e-4)
        with caplog.at_level(logging.INFO, "powerbert.training"):
            caplog.clear()
            folder = finetune(tmp_path / f"{name}-encoder", small_data(), tmp_path / name, options).folder
        assert ("no dropout on attention" in caplog.text) == (name == "long")
        made[name] = load(folder)[0].state_dict()
    same = {name: all(torch.equal(made[name][key], value) for key, value in made["none"].items()) for name in made}
    assert same == {"long": True, "none": True, "short": False}
