"""The three steps on a tiny model: what they write, skip, refuse, and that a kill changes nothing."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from models import FAMILIES, batch_of, tiny
from runs import pretrained, small_data, three_steps
from safetensors.torch import load_file
from texts import tokenizer_for

import powerbert
from powerbert.errors import PowerBertError
from powerbert.modeling.apply import retention_of, unpad
from powerbert.tasks.readers import read_splits
from powerbert.tasks.registry import own_task
from powerbert.training import Data, Options, RetrainOptions, SearchOptions, finetune, retrain, search
from powerbert.training.teacher import answer_distance


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    root = tmp_path_factory.mktemp("steps")
    pretrained(root / "pretrained")
    three_steps(root)
    return root


def test_each_step_leaves_a_model_folder_with_its_record(steps):
    for name in ("one", "two", "three"):
        record = json.loads((steps / name / "run.json").read_text())
        assert record["versions"]["torch"]
        assert record["result"]["evaluation"]["rows"] == 16
        assert record["result"]["tokens_per_second"] > 0
        assert "| word-vectors processed |" in (steps / name / "README.md").read_text()
        lines = [json.loads(line) for line in (steps / name / "metrics.jsonl").read_text().splitlines()]
        assert any("eval_metric" in line for line in lines)
        assert not (steps / f"{name}.partial").exists()
    assert any("mass" in line for line in map(json.loads, (steps / "two" / "metrics.jsonl").open()))


def test_the_search_learns_a_configuration_and_retraining_uses_it(steps):
    one, two, three = (powerbert.load(steps / name)[0] for name in ("one", "two", "three"))
    assert retention_of(one) is None
    assert retention_of(two) == retention_of(three)
    assert retention_of(two).is_relative
    assert not retention_of(two).is_full
    assert len(json.loads((steps / "two" / "retention_parameters.json").read_text())) == 4
    assert one.config.id2label == {0: "no", 1: "yes"}
    assert "retention_parameters" not in load_file(steps / "two" / "model.safetensors")


@pytest.mark.parametrize(("lengths", "relative"), [("half", True), ("mass", True), ("mass", False)])
def test_a_search_ends_at_the_budget_whatever_lambda_is(steps, tmp_path, lengths, relative):
    options = SearchOptions(
        epochs=2, bins=16, batch_size=8, accumulation=1, lengths=lengths, relative=relative, budget=0.6, regulariser=0.0
    )
    found = search(steps / "one", small_data(max_length=16), tmp_path / "two", options).retention
    spent = sum(found.fractions) / len(found)
    assert spent == pytest.approx(0.6, abs=1 / 16 if lengths == "half" or not relative else 1e-3)


@pytest.mark.parametrize("lengths", ["half", "mass"])
def test_lengths_are_read_off_the_learned_r(steps, tmp_path, lengths):
    options = SearchOptions(epochs=1, bins=8, batch_size=8, accumulation=1, regulariser=0.1, lengths=lengths)
    found = search(steps / "one", small_data(), tmp_path / "two", options).retention
    learned = json.loads((tmp_path / "two" / "retention_parameters.json").read_text())
    assert all(0 <= r <= 1 for row in learned for r in row)
    least = 1.0
    for row, share in zip(learned, found.fractions, strict=True):
        # The oracle: ranks of a half or more, or the mass; at least one word, and never rising.
        own = sum(r >= 0.5 for r in row) / 8 if lengths == "half" else sum(row) / 8
        least = min(least, max(own, 1e-4))
        assert share == pytest.approx(least, abs=2e-4)


def test_the_same_command_again_does_nothing_and_another_is_refused(steps, caplog):
    data = small_data()
    options = Options(epochs=2, batch_size=8, accumulation=1, seed=3, evaluations=3)
    before = (steps / "one" / "model.safetensors").stat().st_mtime_ns
    with caplog.at_level("INFO", "powerbert.training"):
        assert finetune(steps / "pretrained", data, steps / "one", options).skipped
    assert "already complete" in caplog.messages[-1]
    assert (steps / "one" / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(PowerBertError, match="another run"):
        finetune(steps / "pretrained", data, steps / "one", Options(epochs=1))
    assert not list(steps.glob("*.partial"))


def test_a_model_with_the_tasks_head_is_not_fine_tuned_again(steps, tmp_path):
    result = finetune(steps / "one", small_data(), tmp_path / "again")
    assert result.skipped
    weights = [load_file(folder / "model.safetensors") for folder in (steps / "one", tmp_path / "again")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_steps_out_of_order_are_refused_in_one_line(steps, tmp_path):
    data = small_data()
    with pytest.raises(PowerBertError, match="finetune first"):
        search(steps / "pretrained", data, tmp_path / "a")
    with pytest.raises(PowerBertError, match="search first"):
        retrain(steps / "one", data, tmp_path / "b")
    assert not list(tmp_path.iterdir())


def test_a_model_that_changed_under_its_name_is_another_run(steps, tmp_path):
    """A run is complete, or goes on, only from the very weights that it began with; its teacher's too."""
    data, options = small_data(), RetrainOptions(epochs=1, batch_size=8, accumulation=1)
    one, two = (Path(shutil.copytree(steps / name, tmp_path / name)) for name in ("one", "two"))
    retrain(two, data, tmp_path / "three", options, teacher=one)
    assert retrain(two, data, tmp_path / "three", options, teacher=one).skipped
    for folder, named in ((one, "other teacher_digest"), (two, "other model_digest")):
        model, tokenizer = powerbert.load(folder)
        with torch.no_grad():
            model.classifier.bias.add_(1)
        original = Path(shutil.copytree(folder, tmp_path / "original"))
        powerbert.save(model, tokenizer, folder, extra={"run.json": (folder / "run.json").read_bytes()})
        with pytest.raises(PowerBertError, match=named):
            retrain(two, data, tmp_path / "three", options, teacher=one)
        shutil.rmtree(folder)
        original.rename(folder)
    assert retrain(two, data, tmp_path / "three", options, teacher=one).skipped


def test_a_folder_of_the_users_where_a_run_would_work_is_not_deleted(steps, tmp_path):
    (tmp_path / "one.partial").mkdir()
    (tmp_path / "one.partial" / "notes.txt").write_text("mine")
    with pytest.raises(PowerBertError, match=r"one\.partial is not empty"):
        finetune(steps / "pretrained", small_data(), tmp_path / "one", Options(epochs=1))
    assert [path.name for path in (tmp_path / "one.partial").iterdir()] == ["notes.txt"]
    assert not (tmp_path / "one").exists()


def test_a_run_that_was_killed_before_its_record_was_whole_begins_anew(steps, tmp_path):
    (tmp_path / "one.partial").mkdir()
    (tmp_path / "one.partial" / "run.json").write_text('{"settings": {"st')
    finetune(steps / "pretrained", small_data(), tmp_path / "one", Options(**FAST))
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_the_users_files_are_not_overwritten(steps, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "notes.txt").write_text("precious")
    with pytest.raises(PowerBertError, match="not empty"):
        finetune(steps / "pretrained", small_data(), home)
    assert (home / "notes.txt").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]  # nothing half-written beside it


FAST = {"epochs": 1, "batch_size": 16}


def teacher_of(folder):
    return Path(json.loads((folder / "run.json").read_text())["settings"]["teacher"])


def test_the_fine_tuned_model_teaches_through_any_number_of_retrainings(steps, tmp_path):
    assert teacher_of(steps / "three") == steps / "one"
    model = steps / "three"
    for name in ("four", "five"):
        model = retrain(model, small_data(), tmp_path / name, RetrainOptions(**FAST)).folder
        assert teacher_of(model) == steps / "one"


def test_a_fine_tuned_model_with_a_configuration_of_ones_own_teaches_itself(steps, tmp_path):
    own = powerbert.RetentionConfiguration.relative((1.0, 0.8, 0.5, 0.25))
    result = retrain(steps / "one", small_data(), tmp_path / "own", RetrainOptions(**FAST), retention=own)
    assert result.retention == own
    assert teacher_of(result.folder) == steps / "one"


def other_labels(folder):
    powerbert.save(tiny("bert"), tokenizer_for(), folder)  # three labels, the task has two
    return {"teacher": folder}, "does not answer own.*LABEL_2.*no, yes.*--teacher"


def other_vocabulary(folder):
    tokenizer = tokenizer_for()
    tokenizer.add_tokens(["another"])
    powerbert.save(powerbert.load(folder.parent / "one")[0], tokenizer, folder)
    return {"teacher": folder}, "same vocabulary"


def no_head(folder):
    return {"teacher": pretrained(folder)}, "does not answer own; got 'BertModel with no labels'.*no, yes"


def no_record(folder):
    model, tokenizer = powerbert.load(folder.parent / "two")
    powerbert.save(model, tokenizer, folder)
    return {"model": folder}, "which fine-tuned model teaches"


def fine_tuned_model_gone(folder):
    shutil.copytree(folder.parent / "two", folder)
    record = json.loads((folder / "run.json").read_text())
    record["settings"]["model"] = str(folder / "gone")
    (folder / "run.json").write_text(json.dumps(record))
    return {"model": folder}, "is not there.*--teacher"


@pytest.mark.parametrize(
    "case", [other_labels, other_vocabulary, no_head, no_record, fine_tuned_model_gone], ids=lambda c: c.__name__
)
def test_a_teacher_that_cannot_teach_is_refused_in_one_line_before_anything_is_written(steps, tmp_path, case):
    given, expected = case(steps / case.__name__)
    model = given.pop("model", steps / "two")
    with pytest.raises(PowerBertError, match=expected):
        retrain(model, small_data(), tmp_path / "three", RetrainOptions(**FAST), **given)
    assert not list(tmp_path.iterdir())
    retrain(model, small_data(), tmp_path / "three", RetrainOptions(**FAST), teacher=steps / "one")


def test_a_one_label_head_that_does_not_say_what_it_is_learns_from_its_teacher(tmp_path, monkeypatch):
    """Cross-encoders are published with `problem_type` null. Oracle: the squared distance of the answers."""
    seen = []

    def spy(logits, answers, task, temperature):
        seen.append(float(((logits - answers) ** 2).mean().detach()))
        return answer_distance(logits, answers, task, temperature)

    monkeypatch.setattr("powerbert.training.teacher.answer_distance", spy)
    rows = Dataset.from_list([{"text": f"the film {i}", "label": float(i % 5)} for i in range(16)])
    task, splits = read_splits({"train": rows, "dev": rows}, own_task("text", kind="regression"))
    model = tiny("bert", num_labels=1)
    powerbert.save(model, tokenizer_for(), tmp_path / "cross")
    own = powerbert.RetentionConfiguration.relative((1.0, 0.5, 0.25, 0.25))
    retrain(
        *(tmp_path / "cross", Data.of(task, splits), tmp_path / "own"),
        RetrainOptions(epochs=2, batch_size=8, accumulation=1),
        retention=own,
    )
    assert seen
    assert all(distance > 0 for distance in seen)


def start(root):
    """The three steps as a process of its own; returns once its imports are done."""
    here = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(
        [sys.executable, str(here / "runs.py"), str(root)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"imported\n"
    return process


def assert_same_weights(root, expected):
    for name in ("one", "two", "three"):
        ours, theirs = (load_file(folder / name / "model.safetensors") for folder in (root, expected))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours), name
        assert retention_of(powerbert.load(root / name)[0]) == retention_of(powerbert.load(expected / name)[0])
        assert logged(root / name) == logged(expected / name)  # what was trained again after a kill is there once


def logged(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], figure) for line in lines for figure in ("loss", "eval_metric") if figure in line]


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_at_any_moment_change_no_bit_of_the_result(steps, tmp_path, kills):
    """kill -9 at random moments over the three steps; each new start goes on from a whole checkpoint."""
    rng, rounds = random.Random(kills), 0
    while kills:
        root = tmp_path / str(rounds)
        rounds += 1
        pretrained(root / "pretrained")
        while not (root / "three").exists():
            process = start(root)
            if kills:
                time.sleep(rng.uniform(0.2, 2.0))
                kills -= process.poll() is None
                process.kill()
                process.communicate()
            else:
                _, error = process.communicate(timeout=300)
                assert process.returncode == 0, error.decode()[-2000:]
        assert_same_weights(root, steps)


def test_a_signal_saves_and_the_same_command_goes_on(steps, tmp_path):
    pretrained(tmp_path / "pretrained")
    process = start(tmp_path)
    while process.poll() is None and not list(tmp_path.glob("*.partial/checkpoint-*")):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=120)
    assert "stopped and saved at step" in error.decode()
    assert list(tmp_path.glob("*.partial/checkpoint-*"))
    process = start(tmp_path)
    process.communicate(timeout=300)
    assert process.returncode == 0
    assert_same_weights(tmp_path, steps)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loop_that_fine_tunes_has_the_gradients_of_the_full_model(family):
    """Oracle: the model's own forward pass. Rows that nobody reads have no gradient, so leaving them out is exact."""
    stock, ours = (tiny(family).train() for _ in range(2))
    for module in [*stock.modules(), *ours.modules()]:
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    unpad(ours)
    batch = batch_of([9, 5, 7], pad=stock.config.pad_token_id)
    losses = [model(**batch, labels=torch.tensor([0, 1, 1])).loss for model in (stock, ours)]
    torch.testing.assert_close(*losses, atol=1e-6, rtol=1e-5)
    for loss in losses:
        loss.backward()
    for (name, own), other in zip(stock.named_parameters(), ours.parameters(), strict=True):
        expected = torch.zeros_like(own) if own.grad is None else own.grad
        found = torch.zeros_like(own) if other.grad is None else other.grad
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4, msg=name)
