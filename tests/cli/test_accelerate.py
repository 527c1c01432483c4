"""`powerbert accelerate` refuses in one line what it cannot do, before any work; the work itself is in test_recipe."""

from __future__ import annotations

import csv
import json

import pytest
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert.cli import accelerate as module
from powerbert.cli.accelerate import outcome
from powerbert.cli.main import main
from powerbert.report.tables import plain_table


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        main(["accelerate", *map(str, arguments)])
    return end.value.code


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A classifier of two labels, labelled rows, rows of one class, few rows, and texts."""
    folder = tmp_path_factory.mktemp("accelerate")
    model = tiny("bert", num_labels=2, num_hidden_layers=2)
    model.config.id2label, model.config.label2id = {0: "no", 1: "yes"}, {"no": 0, "yes": 1}
    powerbert.save(model, tokenizer_for(), folder / "mine")
    words = ("good film", "bad plot", "a dull film", "it is great")
    sizes = {"train": (400, 2), "few": (40, 2), "one": (400, 1), "three": (400, 3)}
    for name, (rows, classes) in sizes.items():
        labels = ("no", "yes", "perhaps")
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            writer.writerows([f"{words[i % 4]} {i}", labels[i % classes]] for i in range(rows))
    (folder / "texts.txt").write_text("".join(f"{words[i % 4]} {i}\n" for i in range(400)))
    return folder


MISTAKES = {
    "no goal": (["--train", "train.csv", "--text", "text"], "one goal"),
    "two goals": (["--train", "train.csv", "--text", "text", "--max-loss", 1, "--speedup", 2], "one goal"),
    "a goal out of range": (["--train", "train.csv", "--text", "text", "--max-loss", -1], "out of range"),
    "a share of both kinds": (["--texts", "texts.txt", "--max-disagreement", "1.5"], "1% or 0.01"),
    "labels missing": (["--texts", "texts.txt", "--max-loss", 1], "needs labels"),
    "too little data": (["--train", "few.csv", "--text", "text", "--max-loss", 1], "too little data"),
    "one class": (["--train", "one.csv", "--text", "text", "--max-loss", 1], "at least two classes"),
    "another task": (["--train", "three.csv", "--text", "text", "--max-loss", 1], "does not answer"),
    "both kinds of data": (
        ["--texts", "texts.txt", "--train", "train.csv", "--max-disagreement", "1%"],
        "stands alone",
    ),
    "no data": (["--text", "text", "--max-loss", 1], "where is the data"),
    "no such file": (["--train", "nowhere.csv", "--text", "text", "--max-loss", 1], "nowhere.csv"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(home, name, tmp_path, capfd):
    given, words = MISTAKES[name]
    files = [home / each if isinstance(each, str) and "." in each and each[0] != "1" else each for each in given]
    assert run("--model", home / "mine", "--output", tmp_path / "fast", *files) == 2
    _, aside = capfd.readouterr()
    lines = [line for line in aside.splitlines() if line.startswith("powerbert: ") or "error" in line.lower()]
    assert words in aside
    assert "Traceback" not in aside
    assert len(lines) <= 1
    assert not (tmp_path / "fast").exists()


def test_figures_go_to_a_dash_alone_and_a_person_sees_before_and_after(home, tmp_path, capfd, monkeypatch):
    row = {"value": 0.9, "work": 0.4, "ms": 1.5}
    figures = {
        "goal": {"text": "at most 1 point"},
        "verdict": {"metric": "accuracy", "text": "Met: nothing lost"},
        "original": row | {"work": 1.0},
        "accelerated": row | {"retention": {"kind": "relative", "fractions": [1.0, 0.4]}},
    }
    monkeypatch.setattr(module, "run_acceleration", lambda *given, **more: figures)
    arguments = ["--model", home / "mine", "--output", tmp_path / "fast", "--train", home / "train.csv"]
    assert run(*arguments, "--text", "text", "--max-loss", 1, "--json", "-") == 0
    assert json.loads(capfd.readouterr().out) == figures
    assert run(*arguments, "--text", "text", "--max-loss", 1) == 0
    shown = capfd.readouterr().out
    for words in ("at most 1 point", "original", "accelerated", "Met: nothing lost"):
        assert words in shown
    assert isinstance(outcome(figures)[0], type(plain_table("", [], [])))
