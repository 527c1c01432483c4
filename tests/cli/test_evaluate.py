"""`powerbert evaluate` in every engine. Oracle: the figures of the same model in torch."""

from __future__ import annotations

import json

from scored import RELATIVE, run


def test_a_graph_is_evaluated_as_the_model_it_was_made_of(answering, capsys):
    figures = []
    for model, more in (("saved", []), ("graph", ["--precision", "fp32", "--threads", "1"])):
        asked = [
            "--model",
            answering / model,
            "--data",
            answering / "texts.csv",
            "--text",
            "review",
            "--label",
            "stars",
        ]
        assert run("evaluate", *asked, *more, "--json", "-") == 0
        figures.append(json.loads(capsys.readouterr().out))
    saved, graph = figures
    assert (saved.pop("engine"), graph.pop("engine")) == ("torch", "openvino")
    assert saved == graph
    assert graph["word_vectors"] < graph["word_vectors_full"]
    assert graph["retention"] == str(RELATIVE)


def test_what_a_graph_cannot_do_is_refused_in_one_line(answering, capsys):
    asked = ["--model", answering / "graph", "--data", answering / "texts.csv", "--text", "review", "--label", "stars"]
    for more, expected in (
        (["--retention", "1.0,1.0,1.0,1.0"], "--retention"),
        (["--engine", "onnx"], "onnx"),
        (["--precision", "int8"], "int8"),
        (["--threads", "0"], "--threads"),
    ):
        assert run("evaluate", *asked, *more) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert expected in line


def test_a_folder_with_a_graph_answers_in_it_unless_another_retention_is_asked_for(answering):
    """The graph carries its own retention; the torch model beside it takes any."""
    target = answering / "figures.json"
    asked = ("--model", answering / "both", "--data", answering / "texts.csv", "--text", "review", "--label", "stars")
    for more, engine in (
        ((), "openvino"),
        (("--retention", "0.9,0.5,0.4,0.1"), "torch"),
        (("--engine", "torch"), "torch"),
    ):
        assert run("evaluate", *asked, *more, "--json", target) == 0
        assert json.loads(target.read_text())["engine"] == engine


def test_a_budget_is_evaluated_with_its_configuration(answering, capsys):
    target = answering / "figures.json"
    asked = ("--model", answering / "dial", "--data", answering / "texts.csv", "--text", "review", "--label", "stars")
    assert run("evaluate", *asked, "--budget", "3x", "--json", target) == 0
    assert json.loads(target.read_text())["retention"] == "0.5,0.2,0.0,0.0"
    capsys.readouterr()
    assert run("evaluate", *asked, "--budget", "9x") == 2
    assert "unknown budget; got '9x'; the model has 3x" in capsys.readouterr().err
    assert run("evaluate", *asked, "--budget", "3x", "--retention", "0.5,0.2,0.1,0.1") == 2
    assert "one of --budget and --retention" in capsys.readouterr().err
