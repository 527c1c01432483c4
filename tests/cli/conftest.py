"""Models in every form, for the commands that answer."""

from __future__ import annotations

import csv

import pytest
from models import tiny
from scored import RELATIVE, classifier, sentences
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.export.write import export


@pytest.fixture(scope="session")
def answering(tmp_path_factory):
    """A saved model, the same as a graph, with one, and with a dial; and a file of texts, some longer than it reads."""
    home = tmp_path_factory.mktemp("answering")
    classifier(home / "saved")
    model = powerbert.apply(tiny("bert"), RELATIVE)
    dial = {"3x": RetentionConfiguration.relative((0.5, 0.2, 0, 0))}
    powerbert.save(model, tokenizer_for(), home / "dial", dial=dial)
    export(*powerbert.load(home / "saved"), home / "graph", "openvino")
    graphs = {"openvino-fp32": home / "graph"}
    powerbert.save(model, tokenizer_for(), home / "both", graphs=graphs, engine="openvino-fp32")
    with (home / "texts.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "review", "stars"])
        writer.writerows([i, text, f"LABEL_{i % 3}"] for i, text in enumerate(sentences(40)))
    return home
