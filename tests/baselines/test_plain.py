"""The first k encoders, cut texts, other strategies, and elimination inside a student."""

from __future__ import annotations

import json
import statistics

import pytest
from model_folders import refusal
from runs import small_data
from texts import tokenizer_for

import powerbert
from powerbert import RetentionConfiguration
from powerbert.acceleration import cost, engine
from powerbert.acceleration.goal import Goal
from powerbert.acceleration.parts import divide
from powerbert.acceleration.recipe import run_acceleration
from powerbert.baselines import StudentOptions, distilbert, first_k, truncate
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.modeling.apply import elimination_of, encoders_of, retention_of
from powerbert.tasks.encoding import encode_split
from powerbert.training import RetrainOptions, retrain
from powerbert.training.options import AccelerateOptions
from powerbert.training.shapes import first_encoders


def test_the_first_encoders_are_retrained_with_every_word(tuned, tmp_path):
    options = RetrainOptions(**tuned.short)
    result = first_k(tuned.folder, tuned.data, tmp_path / "two", options, encoders=2)
    assert result.retention == first_encoders(4, 2)
    assert result.evaluation.work == 0.5
    assert first_k(tuned.folder, tuned.data, tmp_path / "two", options, encoders=2).skipped
    with pytest.raises(PowerBertError, match="from 1 to 3"):
        first_k(tuned.folder, tuned.data, tmp_path / "four", options, encoders=4)


def test_texts_are_cut_to_the_share_of_their_words(tuned, tmp_path):
    options = RetrainOptions(**tuned.short)
    result = truncate(tuned.folder, tuned.data, tmp_path / "cut", options, share=0.6)
    record = json.loads((result.folder / "run.json").read_text())
    longest, tokenizer = record["result"]["max_length"], tokenizer_for()
    lengths = encode_split(tuned.data.splits["train"], tuned.data.task, tokenizer, 40)["length"][:]
    mean = [statistics.mean(min(length, cap) for length in lengths) for cap in (longest - 1, longest)]
    assert mean[0] < 0.6 * statistics.mean(lengths) <= mean[1]
    model, tokenizer = powerbert.load(result.folder)
    assert tokenizer.model_max_length == longest
    assert retention_of(model) is None
    assert truncate(tuned.folder, tuned.data, tmp_path / "cut", options, share=0.6).skipped


def test_the_teacher_reads_whole_texts(tuned, tmp_path, monkeypatch):
    from powerbert.baselines import taught

    read, ask = [], taught.with_answers

    def asked(rows, *more, **options):
        read.append(max(rows["length"][:]))
        return ask(rows, *more, **options)

    monkeypatch.setattr(taught, "with_answers", asked)
    result = truncate(tuned.folder, tuned.data, tmp_path / "cut", RetrainOptions(**tuned.short), share=0.5)
    assert read == [max(encode_split(tuned.data.splits["train"], tuned.data.task, tokenizer_for(), 40)["length"][:])]
    assert json.loads((result.folder / "run.json").read_text())["result"]["max_length"] < read[0]


def test_a_share_that_leaves_no_text_is_one_line(tuned, tmp_path):
    def call(share, folder=tuned.folder):
        return lambda: truncate(folder, tuned.data, tmp_path / "a", share=share)

    for wrong in (0.0, 1.0, -1, float("nan")):
        assert "between 0 and 1" in refusal(PowerBertError, call(wrong))
    assert "has to be 4 at least" in refusal(PowerBertError, call(0.1))
    assert "run finetune first" in refusal(UnsupportedModelError, call(0.5, tuned.encoder))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("strategy", ["head-ws", "rand-ws"])
def test_other_strategies_are_retrained_for_the_same_configuration(tuned, tmp_path, strategy):
    retention = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2))
    options, ladder = RetrainOptions(**tuned.short), [retention, RetentionConfiguration.relative((0.8, 0.5, 0.3, 0.1))]
    asked = {"retention": retention, "ladder": ladder, "strategy": strategy}
    result = retrain(tuned.folder, tuned.data, tmp_path / "one", options, **asked)
    assert elimination_of(powerbert.load(result.folder)[0]).strategy == strategy
    assert result.retention == retention
    assert retrain(tuned.folder, tuned.data, tmp_path / "one", options, **asked).skipped
    with pytest.raises(PowerBertError, match="other strategy"):
        retrain(tuned.folder, tuned.data, tmp_path / "one", options, retention=retention, ladder=ladder)
    # And a re-training from there goes on with it.
    again = retrain(tmp_path / "one", tuned.data, tmp_path / "two", options)
    assert elimination_of(powerbert.load(again.folder)[0]).strategy == strategy
    with pytest.raises(PowerBertError, match="unknown strategy"):
        retrain(tuned.folder, tuned.data, tmp_path / "three", options, retention=retention, strategy="best-ws")


def test_words_are_eliminated_inside_a_student_and_the_first_teacher_teaches(tuned, tmp_path):
    student = distilbert(tuned.folder, tuned.data, tmp_path / "two", StudentOptions(**tuned.short), encoders=2)
    retention = RetentionConfiguration.relative((0.7, 0.3))
    result = retrain(student.folder, tuned.data, tmp_path / "both", RetrainOptions(**tuned.short), retention=retention)
    assert result.retention == retention
    settings = json.loads((result.folder / "run.json").read_text())["settings"]
    assert settings["teacher"] == str(tuned.folder.resolve())
    assert result.evaluation.word_vectors < student.evaluation.word_vectors
    assert powerbert.pipeline(result.folder)("a good film")[0]["label"] in ("yes", "no")


def test_a_student_is_accelerated_like_any_model(tuned, tmp_path, monkeypatch):
    """In torch alone: what takes long is tracing, and that is tested elsewhere."""
    monkeypatch.setattr(engine, "installed", lambda: ["torch"])
    monkeypatch.setattr(cost, "fastest", lambda verdicts: None)
    student = distilbert(tuned.folder, tuned.data, tmp_path / "three", StudentOptions(**tuned.short), encoders=3)
    parts = divide(tuned.data.task, {"train": small_data(400).splits["train"]}, None)
    options = AccelerateOptions(retraining_epochs=1, batch_size=16, accumulation=1)
    figures = run_acceleration(student.folder, parts, Goal("max-loss", 99.0), tmp_path / "fast", options)
    assert encoders_of(powerbert.load(tmp_path / "fast")[0]) == 3
    assert figures["accelerated"]["work"] < 1
