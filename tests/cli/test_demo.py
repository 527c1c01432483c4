"""`powerbert demo` from end to end, with a tiny encoder and task in place of the real ones."""

from __future__ import annotations

import json

import pytest
from runs import pretrained, small_data

from powerbert.cli import demo
from powerbert.cli.main import main


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Where the models go: the second run finds those of the first."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture
def run(home, monkeypatch):
    folder = home / "pretrained"
    monkeypatch.setattr(demo, "model_folder", lambda: folder if folder.exists() else pretrained(folder))
    monkeypatch.setattr(demo, "_data", small_data)
    monkeypatch.setattr(demo, "TIMED_ROUNDS", 1)
    monkeypatch.setattr(demo, "SHOWN_WORDS", range(20))

    def call(*arguments) -> None:
        with pytest.raises(SystemExit) as end:
            main(["demo", "--output", str(home / "models"), *map(str, arguments)])
        assert end.value.code == 0

    return call


@pytest.mark.parametrize("target", ["-", "file"])
def test_figures_on_a_dash_are_alone_on_standard_output(run, target, tmp_path, capfd):
    run("--json", target if target == "-" else tmp_path / "figures.json")
    output, aside = capfd.readouterr()
    person = aside if target == "-" else output
    for words in ("Step 1 of 3", "Step 3 of 3", "speed-up", "The faster classifier is in", "word-vectors"):
        assert words in person
    figures = json.loads(output if target == "-" else (tmp_path / "figures.json").read_text())
    assert figures["speedup"] > 0
    assert set(figures["sentences_per_second"]) == {"before", "after"}
    assert figures["after"]["work"] <= figures["before"]["work"] == 1
