"""`powerbert study`: the files and the last line of each study, and what is refused in one line.

Oracle: the studies' own functions are tested in tests/studies; here the figures of a second way to the same ones.
"""

from __future__ import annotations

import csv
import json

import pytest
import torch
from models import tiny
from runs import pretrained, small_data
from scored import run
from studied import balanced, sentences
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.folders.manifest import folder_digest
from powerbert.studies.registry import STUDIES

COLUMNS = ["--text", "review", "--label", "stars"]
TEXTS = sentences(40, least=4)
TRAINED = ["--batch-size", "8", "--accumulation", "1", "--epochs", "1"]


def table(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "stars"])
        writer.writerows(rows)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A model of three labels, the same with elimination, an encoder without a head, and rows for them."""
    folder = tmp_path_factory.mktemp("study")
    model = balanced(tiny("bert"), TEXTS)
    powerbert.save(model, tokenizer_for(), folder / "mine")
    powerbert.save(
        powerbert.apply(model, RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2))), tokenizer_for(), folder / "fast"
    )
    pretrained(folder / "bare")
    table(folder / "dev.csv", [(text, f"LABEL_{i % 3}") for i, text in enumerate(TEXTS)])
    table(folder / "one.csv", [(text, "LABEL_1") for text in TEXTS])
    (folder / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    return folder


def asked(home, model="mine", data="dev.csv", output="studies"):
    return ["--model", home / model, "--data", home / data, *COLUMNS, "--output", home / output]


@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if not study.trains])
def test_every_study_leaves_figures_and_a_picture_and_ends_with_its_finding(home, name, capsys):
    more = ["--ranks", "4", "--encoders", "1,3"] if name == "mutual-information" else []
    assert run("study", name, *asked(home), *more, "--seed", "5") == 0
    shown = capsys.readouterr()
    record = json.loads((home / "studies" / f"{name}.json").read_text())
    assert " ".join(shown.out.split()).endswith(" ".join(record["finding"].split()))
    assert record["finding"].startswith("agrees" if record["agrees"] else "disagrees")
    assert record["settings"]["model_digest"] == folder_digest(home / "mine")
    assert record["settings"]["seed"] == 5
    assert record["command"].startswith(f"powerbert study {name} ")
    assert record["machine"]["cores"] >= 1
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        assert (home / "studies" / f"{name}.{kind}").read_bytes().startswith(start)
    assert "Traceback" not in shown.err


def test_figures_go_to_standard_output_alone(home, capsys):
    assert run("study", "lengths", *asked(home, output="piped"), "--json", "-") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["inputs"] == 40
    assert figures["finding"].partition(" ")[0] in ("agrees", "disagrees")


def test_the_full_model_is_studied_whatever_the_folder_carries(home, capsys):
    figures = []
    for model, output in (("mine", "full"), ("fast", "eliminating")):
        assert run("study", "cls-position", *asked(home, model, output=output), "--json", "-") == 0
        shown = capsys.readouterr()
        figures.append(json.loads(shown.out))
        assert ("carries a retention configuration" in shown.err) == (model == "fast")
    assert figures[0] == figures[1]


def test_examples_take_the_folders_configuration_or_the_asked_one(home, capsys):
    for more, expected in (([], [0.9, 0.6, 0.4, 0.2]), (["--retention", "0.5,0.5,0.5,0.1"], [0.5, 0.5, 0.5, 0.1])):
        options = ["--inputs", "3", *more, "--json", "-"]
        assert run("study", "examples", *asked(home, "fast"), *options) == 0
        figures = json.loads(capsys.readouterr().out)
        assert [one["retention"]["fractions"] for one in figures["examples"]] == [expected] * 3


def test_a_model_without_a_head_and_texts_without_labels_serve_where_neither_is_read(home):
    texts = ["--model", home / "bare", "--data", home / "texts.txt", "--output", home / "bare-studies"]
    for name in ("redundancy", "lengths"):
        assert run("study", name, *texts) == 0


def test_rows_are_drawn_with_the_seed(home, capsys):
    found = []
    for seed in ("1", "1", "2"):
        options = ["--rows", "10", "--seed", seed, "--json", "-"]
        assert run("study", "redundancy", *asked(home), *options) == 0
        found.append(json.loads(capsys.readouterr().out)["similarity"])
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("name", "change", "more", "said"),
    [
        ("redundance", {}, [], "unknown study; got 'redundance'; one of redundancy, "),
        ("cls-position", {"data": "one.csv"}, [], "have one label; got 'LABEL_1'"),
        ("cls-position", {"model": "bare"}, [], "does not answer texts"),
        ("redundancy", {}, ["--rows", "41"], "there are fewer inputs than asked for; got 41; "),
        ("redundancy", {}, ["--rows", "0"], "--rows is too small"),
        ("examples", {}, ["--inputs", "41"], "there are fewer inputs than asked for; got 41; "),
        ("examples", {}, ["--retention", "0.5,0.5"], "one entry per encoder, and the model has 4"),
        ("mutual-information", {}, ["--encoders", "1,5"], "there is no such encoder; got 5; encoders are 1 to 4"),
        ("mutual-information", {}, ["--encoders", "first"], "--encoders is a list of numbers; got 'first'"),
        ("mutual-information", {}, ["--ranks", "40"], "--ranks is out of range; got 40; from 2 to 39"),
        ("mutual-information", {}, ["--ranks", "1"], "--ranks is too small"),
        ("redundancy", {}, ["--ranks", "4"], "--ranks is not of redundancy; it belongs to mutual-information"),
        ("redundancy", {}, ["--epochs", "1"], "--epochs is not of redundancy; it trains nothing"),
        ("redundancy", {"output": "dev.csv"}, [], "--output and --data are the same"),
        ("redundancy", {"output": "one.csv"}, [], "is a file; the files of a study go to a folder"),
        ("redundancy", {"output": "fast"}, [], "holds a model; the files of a study go beside it"),
        ("selection", {}, [], "where is the training data?; give --train FILE"),
        ("selection", {"model": "fast"}, ["--train", "dev.csv"], "already eliminates"),
        ("pareto", {"model": "fast"}, ["--train", "dev.csv"], "already eliminates"),
        ("pareto", {}, ["--train", "dev.csv", "--seeds", "first"], "--seeds is a list of numbers; got 'first'"),
        ("pareto", {}, ["--train", "dev.csv", "--seeds", "1,1"], "seeds are one or more different numbers"),
        ("pareto", {}, ["--train", "dev.csv", "--methods", "magic"], "unknown method; got 'magic'; one of PoWER-BERT"),
    ],
)
def test_a_mistake_is_one_clear_line(home, name, change, more, said, capsys, monkeypatch):
    monkeypatch.chdir(home)
    code = run("study", name, *asked(home, **{"output": "refused"} | change), *more)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("powerbert: error: ")]
    (line,) = lines
    assert code == 2
    assert said in line
    assert not (home / "refused").exists()


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A fine-tuned model, and the files that it was trained on."""
    folder, data = tmp_path_factory.mktemp("tuned"), small_data()
    pretrained(folder / "pretrained")
    for name, split in data.splits.items():
        table(folder / f"{name}.csv", [(row["text"], data.task.labels[row["label"]]) for row in split.dataset])
    first = ["--model", folder / "pretrained", "--output", folder / "one", "--dev", folder / "dev.csv"]
    assert run("finetune", *first, "--train", folder / "train.csv", *COLUMNS, *TRAINED) == 0
    return folder


def test_pareto_trains_some_methods_and_shows_each_point(tuned, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("powerbert.studies.pareto.probe", lambda *pair: None)
    monkeypatch.setattr("powerbert.studies.pareto.fastest", lambda found, precision: None)  # a machine without int8
    files = ["--train", tuned / "train.csv", "--data", tuned / "dev.csv", *COLUMNS]
    some = ["--methods", "PoWER-BERT, first encoders", "--seeds", "0,1", *TRAINED]
    assert run("study", "pareto", "--model", tuned / "one", "--output", tmp_path, *files, *some) == 0
    shown = " ".join(capsys.readouterr().out.split())
    record = json.loads((tmp_path / "pareto.json").read_text())
    assert {point["method"] for point in record["figures"]["points"]} == {"fine-tuned", "PoWER-BERT", "first encoders"}
    assert {len(point["values"]) for point in record["figures"]["points"]} == {2}
    assert "points of the baselines we have one that is as fast and as good" in shown
    assert (tmp_path / "pareto.png").is_file()


def test_selection_trains_each_strategy_once_and_goes_on(tuned, tmp_path, capsys):
    files = ["--train", tuned / "train.csv", *COLUMNS]
    study = ["--model", tuned / "one", "--output", tmp_path / "studies", "--data", tuned / "dev.csv"]
    options = ["--retention", "0.9,0.5,0.3,0.3", "--threshold", "8", "--train-rows", "32", *TRAINED]
    capsys.readouterr()
    for already in (0, 3):
        torch.manual_seed(already)
        assert run("study", "selection", *study, *files, *options) == 0
        shown = capsys.readouterr()
        assert shown.err.count("is already complete") == already
        assert "Attn-WS leads the better of the others by" in " ".join(shown.out.split())
    record = json.loads((tmp_path / "studies" / "selection.json").read_text())
    assert record["settings"]["options"]["epochs"] == 1.0
    assert record["settings"]["train"] == "train.csv"
    runs = [
        json.loads((tmp_path / "studies" / "selection" / name / "run.json").read_text())
        for name in ("attn-ws", "head-ws")
    ]
    assert [one["settings"].get("strategy") for one in runs] == ["attn-ws", "head-ws"]
    assert {one["settings"]["rows"]["train"] for one in runs} == {32}
