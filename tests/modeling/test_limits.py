"""What a model reads: positions, tokenizer, configuration, and the N that a folder was trained at."""

from __future__ import annotations

import json

import pytest
import torch
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.errors import PowerBertError
from powerbert.folders.manifest import MAX_CONFIG
from powerbert.modeling.limits import CHOICE, check_classifier, limits_of, longest_input, trained_length

RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.1))


def test_the_longest_input_of_roberta_leaves_room_for_its_offset():
    model = tiny("roberta")
    assert longest_input(model, tokenizer_for(10_000)) == 46
    powerbert.apply(model, RELATIVE)
    with torch.no_grad():
        model(input_ids=torch.full((1, 46), 7))


def test_the_least_limit_holds_and_a_tokenizer_without_one_is_not_asked():
    model = tiny("bert")
    assert longest_input(model, tokenizer_for(10)) == 10
    assert longest_input(model, tokenizer_for(-1)) == 40
    powerbert.apply(model, RetentionConfiguration.absolute((8, 8, 8, 8), 12))
    assert limits_of(model, tokenizer_for()).longest == 12


@pytest.mark.parametrize(
    ("record", "length"),
    [
        ('{"result": {"max_length": 16}}', 16),
        ('{"result": {"max_length": true}}', None),
        ('{"result": {"max_length": -3}}', None),
        ('{"result": 5}', None),
        ("[]", None),
        ("not JSON", None),
        ("[" * 100_000, None),
        ('{"result": {"max_length": 16}}' + " " * MAX_CONFIG, None),  # a folder is anybody's: what is huge is not read
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_record_of_a_training_is_believed_only_where_it_names_a_length(tmp_path, record, length):
    (tmp_path / "run.json").write_text(record)
    assert trained_length(tmp_path) == length
    assert trained_length(tmp_path / "nowhere") is None


def test_a_trained_folder_reads_what_it_was_trained_to_read_wherever_it_is_asked(tmp_path):
    record = json.dumps({"result": {"max_length": 9}}).encode()
    model = powerbert.apply(tiny("bert"), RELATIVE)
    powerbert.save(model, tokenizer_for(), tmp_path / "model", extra={"run.json": record})
    loaded, tokenizer = powerbert.load(tmp_path / "model")
    assert longest_input(loaded, tokenizer) == 9
    classify = powerbert.pipeline(tmp_path / "model")
    assert classify.engine.limits.longest == 9
    assert len(powerbert.trace(loaded, tokenizer, "good film " * 20).tokens) == 9
    powerbert.save(loaded, tokenizer, tmp_path / "copy")  # also where the record did not come along
    assert longest_input(*powerbert.load(tmp_path / "copy")) == 9


def test_an_engine_says_which_heads_it_runs():
    check_classifier(tiny("bert"))
    with pytest.raises(PowerBertError, match="BertForMultipleChoice"):
        check_classifier(tiny("bert", "ForMultipleChoice"))
    check_classifier(tiny("bert", "ForMultipleChoice"), CHOICE)
    with pytest.raises(PowerBertError, match="transformers model"):
        check_classifier(torch.nn.Linear(1, 1))
