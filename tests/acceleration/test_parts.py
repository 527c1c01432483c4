"""Rows train, choose or judge, never two of these; oracle: the rows themselves."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset
from models import tiny
from texts import tokenizer_for

import powerbert
from powerbert.acceleration.parts import LEAST_JUDGED, divide, parts_of_texts
from powerbert.errors import DataError, PowerBertError, UnsupportedModelError
from powerbert.tasks.readers import read_splits
from powerbert.tasks.registry import own_task
from powerbert.text.batches import TEACHER

WORDS = ("good film", "bad plot", "a dull film", "it is great")


def rows(count: int, first: int = 0) -> Dataset:
    return Dataset.from_list(
        [{"text": f"{WORDS[i % 4]} {i}", "label": "yes" if i % 2 else "no"} for i in range(first, first + count)]
    )


def texts(split) -> set[str]:
    return set(split.dataset["text"][:])


def divided(**splits):
    task, read = read_splits(splits, own_task("text"))
    return divide(task, read, None)


def test_half_of_dev_chooses_and_the_other_half_judges():
    parts = divided(train=rows(100), dev=rows(81, 100))
    choosing, verdict = texts(parts.data.splits["dev"]), texts(parts.verdict)
    assert texts(parts.data.splits["train"]) == texts_of_range(0, 100)
    assert (len(choosing), len(verdict)) == (40, 41)
    assert choosing | verdict == texts_of_range(100, 181)
    assert choosing == texts(divided(train=rows(100), dev=rows(81, 100)).data.splits["dev"])  # the same again


def texts_of_range(start: int, end: int) -> set[str]:
    return texts_of_dataset(rows(end - start, start))


def texts_of_dataset(dataset) -> set[str]:
    return set(dataset["text"][:])


def test_without_dev_parts_of_the_training_data_are_held_back_and_it_says_so():
    parts = divided(train=rows(400))
    sizes = [len(split) for split in (parts.data.splits["train"], parts.data.splits["dev"], parts.verdict)]
    assert sizes == [320, 40, 40]
    together = texts(parts.data.splits["train"]) | texts(parts.data.splits["dev"]) | texts(parts.verdict)
    assert together == texts_of_range(0, 400)
    assert "no dev file" in parts.how


def test_the_notes_are_those_of_the_files_and_do_not_call_a_tenth_all_rows():
    assert divided(train=rows(400)).data.findings.notes == ()
    assert divided(train=rows(100), dev=rows(81, 100)).data.findings.notes == ()
    task, read = read_splits({"train": rows(500)}, own_task("text"))
    parts = divide(task, {"train": read["train"].part(400, 1)}, None)
    assert "train: 400 of 500 rows, shuffled with seed 1" in parts.data.findings.notes  # what the user asked for


@pytest.mark.parametrize(
    "splits", [{"train": rows(100), "dev": rows(2 * LEAST_JUDGED - 1, 100)}, {"train": rows(30), "dev": rows(100, 100)}]
)
def test_too_little_data_is_refused_in_one_line(splits):
    with pytest.raises(DataError, match="too little data"):
        divided(**splits)


@pytest.mark.parametrize("labels", [1, 3])
def test_texts_alone_get_the_answers_of_the_model_as_labels(tmp_path, labels):
    model = tiny("bert", num_labels=labels)
    powerbert.save(model, tokenizer_for(), tmp_path / "mine")
    parts = parts_of_texts(tmp_path / "mine", rows(400).remove_columns("label"), "text", None, None)
    assert not parts.labelled
    answers = powerbert.pipeline(tmp_path / "mine", "torch")(parts.verdict.dataset["text"][:], function_to_apply="none")
    expected = [answer["score" if labels == 1 else "label"] for answer in answers]
    found = parts.verdict.dataset["label"][:]
    if labels == 1:
        assert found == pytest.approx(expected, abs=1e-5)
    else:
        assert [parts.data.task.labels[i] for i in found] == expected


def test_texts_bring_the_answers_that_are_taught_cut_as_the_user_says(tmp_path):
    powerbert.save(tiny("bert", num_labels=1), tokenizer_for(), tmp_path / "mine")
    texts = [f"{text} good bad" * 3 for text in rows(400)["text"][:]]
    parts = parts_of_texts(tmp_path / "mine", Dataset.from_dict({"text": texts}), "text", None, 8)
    model, tokenizer = powerbert.load(tmp_path / "mine")
    for row in parts.data.splits["train"].dataset.select(range(5)):
        with torch.no_grad():
            logits = model(**tokenizer(row["text"], truncation=True, max_length=8, return_tensors="pt")).logits[0]
        assert row[TEACHER] == pytest.approx(logits.tolist(), abs=1e-5)


def test_a_run_without_labels_is_known_again_by_its_texts_whatever_the_last_digits_of_the_answers_are(tmp_path):
    digests = {}
    for name, text in {"one": "good", "two": "good", "other": "bad"}.items():
        model = tiny("bert", num_labels=1)
        model.classifier.bias.data += 1e-6 * (name == "two")
        powerbert.save(model, tokenizer_for(), tmp_path / name)
        texts = rows(400).remove_columns("label").map(lambda row, last=text: {"text": f"{row['text']} {last}"})
        digests[name] = parts_of_texts(tmp_path / name, texts, "text", None, None).data.digest
    assert digests["one"] == digests["two"] != digests["other"]


@pytest.mark.parametrize(("head", "changes"), [("Model", {}), ("ForSequenceClassification", {"multi": True})])
def test_a_model_that_has_no_one_answer_cannot_teach(tmp_path, head, changes):
    model = tiny("bert", head)
    if changes:
        model.config.problem_type = "multi_label_classification"
    powerbert.save(model, tokenizer_for(), tmp_path / "mine")
    with pytest.raises(UnsupportedModelError, match="cannot teach"):
        parts_of_texts(tmp_path / "mine", rows(400), "text", None, None)


def test_texts_of_one_answer_alone_are_refused(tmp_path):
    model = tiny("bert")
    model.classifier.bias.data[0] += 100
    powerbert.save(model, tokenizer_for(), tmp_path / "mine")
    with pytest.raises(PowerBertError, match="at least two classes"):
        parts_of_texts(tmp_path / "mine", rows(400), "text", None, None)
