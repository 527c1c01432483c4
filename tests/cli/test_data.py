"""The data and the task of a command, from its flags. Oracle: the file that the test wrote."""

from __future__ import annotations

import json

import pytest
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert.cli.data import task_of
from powerbert.cli.flags import Columns
from powerbert.cli.main import main
from powerbert.cli.opening import existing_folder
from powerbert.errors import DataError, ModelFolderError


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def test_a_model_whose_labels_are_in_capitals_is_evaluated_on_the_papers_task(tmp_path):
    """As most published models of SST-2 spell them."""
    model = tiny("bert", num_labels=2)
    model.config.id2label = {0: "NEGATIVE", 1: "POSITIVE"}
    powerbert.save(model, tokenizer_for(), tmp_path / "model")
    rows = [{"text": f"a {word} film", "label": word == "good"} for word in ("good", "bad") * 4]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    target = tmp_path / "figures.json"
    asked = ("--model", tmp_path / "model", "--task", "SST-2", "--data", tmp_path / "dev.jsonl")
    assert run("evaluate", *asked, "--json", target) == 0
    assert json.loads(target.read_text())["rows"] == 8


@pytest.mark.parametrize(("line", "pair"), [("a film", False), ("a film\tthe plot", True)])
def test_one_text_per_line_needs_no_column_names(line, pair, tmp_path):
    (tmp_path / "a.txt").write_text(line + "\n")
    assert task_of(Columns(), data=str(tmp_path / "a.txt")).is_pair is pair
    (tmp_path / "a.jsonl").write_text("{}")
    with pytest.raises(DataError, match="which text"):
        task_of(Columns(), data=str(tmp_path / "a.jsonl"))


def test_a_metric_that_does_not_fit_is_refused_before_any_data_is_read(tmp_path, capsys):
    asked = ("--model", tmp_path, "--output", tmp_path / "out", "--text", "t", "--train", "no.csv", "--dev", "no.csv")
    assert run("finetune", *asked, "--regression", "--metric", "accuracy") == 2
    assert "accuracy does not score numbers" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_of_a_user_that_does_not_exist_is_no_folder():
    with pytest.raises(ModelFolderError, match="is not a folder"):
        existing_folder("~nobody-is-called-this/model")
