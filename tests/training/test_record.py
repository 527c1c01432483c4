"""What a run leaves behind: where a model came from, whose folder it is, and the card."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from powerbert.errors import PowerBertError
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.metrics import Interval
from powerbert.training.evaluation import Evaluation
from powerbert.training.record import check_place, model_card, origin, read_run, run_record


def wrote(folder: Path, step: str, model: Path) -> Path:
    """A folder that a step wrote from a model."""
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"settings": {"step": step, "model": str(model)}}))
    return folder


def test_the_fine_tuned_model_is_found_through_any_number_of_steps(tmp_path):
    encoder = tmp_path / "encoder"
    encoder.mkdir()
    model = one = wrote(tmp_path / "one", "finetune", encoder)
    assert origin(one) == one
    for number, step in enumerate(("search", "retrain", "retrain", "anytime", "retrain")):
        model = wrote(tmp_path / str(number), step, model)
        assert origin(model) == one


def test_a_model_that_no_step_wrote_is_where_it_came_from(tmp_path):
    (tmp_path / "cross").mkdir()
    assert origin(tmp_path / "cross") == tmp_path / "cross"
    assert origin(wrote(tmp_path / "two", "search", tmp_path / "cross")) == tmp_path / "cross"


@pytest.mark.parametrize("record", ["[]", "{", '{"settings": 3}', '{"settings": {"step": null}}'])
def test_a_record_that_says_nothing_is_none(tmp_path, record):
    (tmp_path / "run.json").write_text(record)
    assert origin(tmp_path) == tmp_path


def test_records_in_a_circle_or_of_a_folder_that_is_gone_are_refused(tmp_path):
    wrote(tmp_path / "a", "retrain", tmp_path / "b")
    wrote(tmp_path / "b", "retrain", tmp_path / "a")
    for folder in (tmp_path / "a", wrote(tmp_path / "c", "search", tmp_path / "gone")):
        with pytest.raises(PowerBertError, match=r"is not there.*--teacher"):
            origin(folder)


def test_a_place_is_free_complete_or_anothers(tmp_path):
    work, output, settings = tmp_path / "o.partial", tmp_path / "o", {"step": "search", "seed": 1}
    assert check_place(work, output, settings) is False
    output.mkdir()
    assert check_place(work, output, settings) is False
    work.mkdir()
    (work / "run.json").write_text(json.dumps(run_record(settings)))
    assert check_place(work, output, settings) is False  # begun, and to be resumed
    with pytest.raises(PowerBertError, match=r"o.partial holds another run; got 'other seed'"):
        check_place(work, output, settings | {"seed": 2})
    (output / "run.json").write_text(json.dumps(run_record(settings)))
    assert check_place(work, output, settings) is True
    assert read_run(output)["versions"]["torch"]
    (output / "run.json").unlink()
    (output / "notes.txt").write_text("precious")
    with pytest.raises(PowerBertError, match="not empty"):
        check_place(work, output, settings)


@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        (RetentionConfiguration.relative((0.5, 0.25)), ("share of own length", "| retains | 0.5 | 0.25 |")),
        (RetentionConfiguration.absolute((9, 4), 16), ("word-vectors of N=16", "| retains | 9 | 4 |")),
    ],
)
def test_the_card_shows_metric_word_vectors_and_configuration(retention, expected):
    evaluation = Evaluation("f1", 0.875, Interval(0.8, 0.9), 408, 300, 1000)
    settings = {"task": "MRPC", "step": "retrain", "model": "two", "options": {"seed": 3}}
    card = model_card(settings, evaluation, retention)
    for part in ("`powerbert retrain` from `two`, seed 3", "0.8750", "(30.0 %)", *expected):
        assert part in card
    assert "Retention" not in model_card(settings, evaluation, None)


def test_a_run_that_was_killed_at_once_goes_on_and_a_users_folder_is_left_alone(tmp_path):
    work, output = tmp_path / "o.partial", tmp_path / "o"
    work.mkdir()
    (work / ".lock").touch()
    (work / "run.json").write_text('{"settings": {')
    assert check_place(work, output, {"seed": 1}) is False
    (work / "notes.txt").write_text("precious")
    with pytest.raises(PowerBertError, match=r"o.partial is not empty"):
        check_place(work, output, {"seed": 1})
