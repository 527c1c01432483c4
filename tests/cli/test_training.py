"""The training commands from end to end on a tiny model, and what they refuse before any work."""

from __future__ import annotations

import csv
import json

import pytest
from runs import pretrained, small_data

import powerbert
from powerbert.cli.flags import Reported
from powerbert.cli.main import main
from powerbert.cli.training import prepare
from powerbert.errors import MissingExtraError

COLUMNS = ["--text", "review", "--label", "stars"]
FAST = ["--batch-size", "8", "--epochs", "1"]


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A pretrained encoder, and train.csv and dev.csv with columns of a user's own."""
    folder = tmp_path_factory.mktemp("commands")
    pretrained(folder / "pretrained")
    data = small_data()
    for name, split in data.splits.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["review", "stars"])
            writer.writerows([row["text"], data.task.labels[row["label"]]] for row in split.dataset)
    return folder


@pytest.fixture(scope="module")
def files(home):
    return ["--train", home / "train.csv", "--dev", home / "dev.csv", *COLUMNS]


@pytest.fixture(scope="module")
def steps(home, files):
    """The folders of the three steps, made by the commands themselves."""
    for step, model, output, more in (
        ("finetune", "pretrained", "one", []),
        ("search", "one", "two", ["--bins", "8", "--json", home / "search.json"]),
        ("retrain", "two", "three", []),
    ):
        arguments = ["--model", home / model, "--output", home / output, *files, *FAST, *more]
        assert run(step, *arguments) == 0
    return home


def test_three_commands_make_a_classifier_with_the_users_labels(steps):
    model, _ = powerbert.load(steps / "three")
    assert set(model.config.id2label.values()) == {"yes", "no"}
    found = json.loads((steps / "search.json").read_text())
    assert found["retention"] == json.loads((steps / "three" / "run.json").read_text())["settings"]["retention"]
    assert (steps / "two" / "retention.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((steps / "one" / "run.json").read_text())["command"].startswith("powerbert finetune ")
    assert not list(steps.glob("*.partial"))


def test_the_summary_names_metric_word_vectors_and_configuration(steps, files, capsys):
    # The same command again finds the finished run and shows it.
    assert run("retrain", "--model", steps / "two", "--output", steps / "three", *files, *FAST) == 0
    shown = capsys.readouterr()
    assert "accuracy" in shown.out
    assert "word-vectors" in shown.out
    assert "already complete" in shown.err


def test_evaluate_counts_real_word_vectors_with_and_without_the_folders_retention(steps, capsys):
    asked = ["--model", steps / "three", "--data", steps / "dev.csv", *COLUMNS, "--json", "-"]
    assert run("evaluate", *asked) == 0
    own = json.loads(capsys.readouterr().out)
    assert run("evaluate", *asked, "--retention", "1.0,1.0,1.0,1.0") == 0
    full = json.loads(capsys.readouterr().out)
    assert own["word_vectors"] < full["word_vectors"] == own["word_vectors_full"]
    assert own["value"] == json.loads((steps / "three" / "run.json").read_text())["result"]["evaluation"]["value"]


def test_predict_answers_in_the_order_of_the_file_as_the_model_alone_would(steps, capsys):
    data = small_data()
    assert run("predict", "--model", steps / "three", "--data", steps / "dev.csv", "--text", "review",
               "--output", "-") == 0  # fmt: skip
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    classify = powerbert.pipeline(steps / "three")
    for answer, row in zip(answers, data.splits["dev"].dataset, strict=True):
        alone = classify(row["text"])[0]
        assert answer["label"] == alone["label"]
        assert answer["score"] == pytest.approx(alone["score"], abs=1e-4)
    assert [answer["review"] for answer in answers] == list(data.splits["dev"].dataset["text"])


def test_predict_writes_glues_file(steps, tmp_path):
    (tmp_path / "test.jsonl").write_text('{"text": "good film"}\n{"text": "bad film"}\n')
    model, tokenizer = powerbert.load(steps / "three")
    model.config.id2label = {0: "negative", 1: "positive"}
    powerbert.save(model, tokenizer, tmp_path / "sst")
    assert run("predict", "--model", tmp_path / "sst", "--task", "sst2", "--data", tmp_path,
               "--glue", tmp_path) == 0  # fmt: skip
    lines = (tmp_path / "SST-2.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    assert [line.split("\t")[0] for line in lines[1:]] == ["0", "1"]


def test_anytime_reports_every_budget_of_its_dial(steps, files, capsys):
    arguments = ["--model", steps / "one", "--output", steps / "any", *files, *FAST]
    assert run("anytime", *arguments, "--budgets", "0.7,0.5") == 0
    shown = capsys.readouterr().out
    for name in ("original", "1.43x", "2x"):
        assert name in shown


BAD = {
    "missing column": ("review,star\na,1\n", "no column"),
    "one class": ("review,stars\na,yes\nb,yes\n", "all 2 rows from line 2 on are labelled"),
    "empty file": ("", "no rows"),
    "no text": ("review,stars\n,yes\nb,no\n", "line 2"),
    "ragged": ("review,stars\na,yes,7\nb,no\n", "line 2"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data_is_one_line_before_anything_is_written(name, home, tmp_path, capsys):
    content, expected = BAD[name]
    (tmp_path / "bad.csv").write_text(content)
    asked = ["--train", tmp_path / "bad.csv", "--dev", home / "dev.csv", *COLUMNS]
    assert run("finetune", "--model", home / "pretrained", "--output", tmp_path / "out", *asked) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert expected in told[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["finetune", "--model", "M", "--output", "o"], "--task NAME"),
        (["finetune", "--model", "M", "--output", "o", "--task", "cola"], "where is the data"),
        (["finetune", "--model", "M", "--output", "o", "--task", "cola", "--text", "t"], "brings its own"),
        (["finetune", "--model", "nowhere", "--output", "o", "--task", "cola"], "not a folder"),
        (["finetune", "--model", "M", "--output", "o", "--text", "review", "--epochs", "0"], "--epochs"),
        (["search", "--model", "M", "--output", "o", "--text", "review", "--optimiser", "sgd"], "optimiser"),
        (["retrain", "--model", "M", "--output", "o", "--text", "review", "--retention", "9,8"], "counts need"),
        (["anytime", "--model", "M", "--output", "o", "--text", "review", "--budgets", "half"], "--budgets"),
        (["predict", "--model", "M", "--data", "x.csv", "--text", "review"], "where do the answers go"),
        (["evaluate", "--model", "M", "--data", "x.csv", "--text", "review"], "does not answer"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(arguments, expected, home, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = str(home / "pretrained")
    assert run(*[model if argument == "M" else argument for argument in arguments]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert expected in told[0]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "flag", "value"),
    [
        ("finetune", "--seed", "-1"),
        ("finetune", "--max-length", "0"),
        ("finetune", "--weight-decay", "-1"),
        ("finetune", "--learning-rate", "inf"),
        ("search", "--regulariser", "nan"),
        ("retrain", "--temperature", "nan"),
        ("anytime", "--budgets", "nan"),
        ("anytime", "--budgets", "0.5,1.2"),
    ],
)
def test_a_number_out_of_range_is_one_line_before_anything_is_written(
    command, flag, value, home, files, tmp_path, capsys
):
    asked = ["--model", home / "pretrained", "--output", tmp_path / "out", *files, flag, value]
    assert run(command, *asked) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert flag in told[0]
    assert not list(tmp_path.iterdir())


def test_a_report_to_what_is_not_installed_is_refused_before_anything_is_written(home, files, tmp_path, capsys):
    asked = ["--model", home / "pretrained", "--output", tmp_path / "out", *files, "--report-to", "nowhere"]
    assert run("finetune", *asked) == 2
    assert "error: --report-to is not installed; got 'nowhere'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_second_retraining_asks_the_fine_tuned_model_and_says_so_once(steps, files, tmp_path, capsys):
    asked = ["--model", steps / "three", "--output", tmp_path / "four", *files, *FAST]
    assert run("retrain", *asked) == 0
    shown = capsys.readouterr().err
    assert shown.count(f"asking {steps / 'one'} for its answers to 48 rows") == 1
    assert "48 rows, 2 steps of 32 inputs: about" in shown  # the task's batch, although 8 fit at once


def test_a_head_that_is_replaced_is_a_warning(steps, files, tmp_path, capsys):
    model, tokenizer = powerbert.load(steps / "one")
    model.config.id2label = {0: "left", 1: "right"}
    powerbert.save(model, tokenizer, tmp_path / "other")
    assert run("finetune", "--model", tmp_path / "other", "--output", tmp_path / "one", *files, *FAST) == 0
    assert "warning: " in (shown := capsys.readouterr().err)
    assert "left, right" in shown


def test_a_missing_training_library_names_the_pip_command(monkeypatch):
    monkeypatch.setattr("powerbert.errors.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "powerbert\[train\]"'):
        prepare()


def test_budgets_are_shares_and_without_them_the_model_decides():
    assert Reported().shares() is None
    assert Reported(budgets="0.7,0.5").shares() == [0.7, 0.5]
