"""What the report shows beside the verdict; oracles: plain counts."""

from __future__ import annotations

import json

import numpy
import pytest
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.acceleration.cost import CostTable
from powerbert.acceleration.evidence import agreement_by_length, costs_of, examples, time_of
from powerbert.modeling.limits import RUN
from powerbert.tasks.registry import own_task


def test_every_input_is_in_one_fifth_by_its_length():
    lengths = [30, 10, 20, 50, 40, 60]
    before, after = numpy.array([0, 0, 0, 0, 0, 0]), numpy.array([0, 1, 0, 0, 1, 0])
    found = agreement_by_length(own_task("text"), lengths, before, after)
    assert sum(row["rows"] for row in found) == 6
    assert found[0] == {"from": 10, "to": 20, "rows": 2, "agreement": 0.5}
    assert [row["to"] for row in found] == sorted(row["to"] for row in found)
    assert agreement_by_length(own_task("text", kind="regression"), lengths, before, after) == []


def test_time_before_and_after_has_a_place_for_every_encoder():
    table = CostTable((1, 100), (1.0, 1.0), (0.5, 0.5), (0.25, 0.25), 0.5)
    found = time_of(table, RetentionConfiguration.relative((1.0, 0.5, 0.0)), 100)
    assert found == {"before": [1000, 1000, 250], "after": [1000, 250, 0], "rest": 500}


def test_inputs_whose_label_changed_come_first_with_their_words(tmp_path):
    model = powerbert.apply(tiny("bert"), RetentionConfiguration.relative((0.8, 0.5, 0.3, 0.1)))
    powerbert.save(model, tokenizer_for(), tmp_path / "mine")
    task = own_task("text", labels=("a", "b", "c"))
    texts = ["good film", "bad film", "x" * 1000]
    found = examples(tmp_path / "mine", task, texts, *(numpy.array(row) for row in ([0, 1, 2], [0, 2, 1], [0, 1, 1])))
    assert [each["truth"] for each in found] == ["b", "a"]  # the long text is not shown
    assert (found[0]["before"]["label"], found[0]["after"]["label"]) == ("b", "c")
    assert [word["text"] for word in found[0]["words"]] == ["[CLS]", "bad", "film", "[SEP]"]
    assert found[0]["words"][0]["last"] == found[0]["encoders"] == 4


def test_no_example_of_numbers(tmp_path):
    assert examples(tmp_path, own_task("text", kind="regression"), ["good"], *[numpy.zeros(1)] * 3) == []


@pytest.mark.parametrize("skipped", [False, True])
def test_a_training_costs_its_epochs_times_its_work(tmp_path, skipped):
    result = {"skipped": skipped, "seconds": 5.0}
    record = {"settings": {"options": {"epochs": 2.0}}, "result": result}
    (tmp_path / RUN).write_text(json.dumps(record))
    (found,) = costs_of({tmp_path: 0.5}, 1000, 4.0)
    assert (found["tokens"], found["fine_tunings"]) == ((0, 0.0) if skipped else (2000, 0.25))
