"""`powerbert.accelerate` reads the data and hands it on; what cannot be is refused before any work."""

from __future__ import annotations

import pytest
from datasets import Dataset
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert.acceleration import start
from powerbert.errors import DataError, PowerBertError

ROWS = Dataset.from_list([{"review": f"good film {i}", "stars": i % 3} for i in range(400)])


@pytest.fixture
def handed_on(monkeypatch):
    calls = []
    monkeypatch.setattr(start, "run_acceleration", lambda *given, **more: calls.append((given, more)) or {})
    return calls


def test_files_become_parts_and_a_goal(handed_on, tmp_path):
    powerbert.accelerate("mine", tmp_path / "fast", train=ROWS, text="review", label="stars", max_loss=1.0)
    (model, parts, goal, output, _), _ = handed_on[0]
    assert (model, goal.kind, output) == ("mine", "max-loss", tmp_path / "fast")
    assert parts.labelled
    assert parts.data.task.labels == ("0", "1", "2")


def test_texts_alone_are_labelled_by_the_model(handed_on, tmp_path):
    powerbert.save(tiny("bert"), tokenizer_for(), tmp_path / "mine")
    texts = [{"text": f"{('good film', 'bad plot', 'a dull film', 'it is great')[i % 4]} {i}"} for i in range(400)]
    powerbert.accelerate(tmp_path / "mine", tmp_path / "fast", texts=Dataset.from_list(texts), max_disagreement="1%")
    (_, parts, goal, *_), _ = handed_on[0]
    assert not parts.labelled
    assert goal.value == 1.0


def test_both_kinds_of_data_and_none_are_refused(handed_on, tmp_path):
    for given in ({}, {"train": ROWS, "texts": ROWS}):
        with pytest.raises(DataError, match="either train or texts"):
            powerbert.accelerate("mine", tmp_path / "fast", max_loss=1.0, **given)
    with pytest.raises(PowerBertError, match="one goal"):
        powerbert.accelerate("mine", tmp_path / "fast", train=ROWS)
    assert not handed_on
