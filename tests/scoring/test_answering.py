"""Answers to windows. Oracle: `powerbert.pipeline`, text by text."""

from __future__ import annotations

import numpy
import pytest
from scored import classifier, sentences

import powerbert
from powerbert.engines.open import open_engine
from powerbert.errors import DataError, PowerBertError
from powerbert.scoring.answering import Answerer, Verdicts, answered_here
from powerbert.scoring.rows import InputRow
from powerbert.tasks.files import RawRow
from powerbert.tasks.registry import own_task

TASK = own_task("text", labels=("LABEL_0", "LABEL_1", "LABEL_2"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return classifier(tmp_path_factory.mktemp("answering") / "model")


def test_windows_are_answered_in_order_without_the_rows_at_fault(folder):
    fault = DataError("no text")
    rows = [InputRow(RawRow(i, {}, ""), {"text": text}) for i, text in enumerate(sentences(30))]
    windows = [
        rows[:20],
        [InputRow(RawRow(99, {}, ""), {}, fault)],
        [*rows[20:], InputRow(RawRow(98, {}, ""), {}, fault)],
    ]
    answerer, done = Answerer(open_engine(folder), TASK, 8), []
    found = list(answered_here(answerer, windows, done.append))
    assert [window for window, _ in found] == windows
    assert [len(logits) for _, logits in found] == [20, 0, 10]
    assert sum(done) == 30
    verdicts, classify = Verdicts(answerer.engine, TASK, every=True), powerbert.pipeline(folder)
    for row, logits in zip(rows, numpy.concatenate([found[0][1], found[2][1]]), strict=True):
        every = {f"score_{one['label']}": one["score"] for one in classify(row.texts["text"], top_k=None)}
        answer = verdicts.of(logits.tolist())
        assert list(answer) == list(verdicts.columns)
        assert {name: answer[name] for name in every} == pytest.approx(every, abs=2e-4)
        assert answer["label"] == classify(row.texts["text"])[0]["label"]


def test_the_columns_that_are_added(folder):
    engine = open_engine(folder)
    assert Verdicts(engine, TASK).columns == {"label": str, "score": float}
    recorded = Verdicts(engine, TASK, prefix="my_", errors=True)
    assert recorded.columns == {"my_label": str, "my_score": float, "my_error": str}
    assert recorded.of_fault("bad") == {"my_label": None, "my_score": None, "my_error": "bad"}
    assert recorded.of([1.0, 0.0, 0.0])["my_error"] is None
    engine.labels = {0: "same", 1: "same", 2: "other"}
    with pytest.raises(PowerBertError, match="two labels of the model have one name"):
        Verdicts(engine, TASK, every=True)
