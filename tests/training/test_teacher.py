"""Which model teaches, its answers as a column of the training data, and the distances that a model learns from."""

import json
import re
from pathlib import Path

import pytest
import torch
from models import batch_of, tiny
from runs import pretrained, small_data
from texts import tokenizer_for

import powerbert
from powerbert.errors import PowerBertError
from powerbert.tasks.encoding import encode_split
from powerbert.tasks.registry import find_task
from powerbert.text.batches import TEACHER, Collator
from powerbert.training import Options, RetrainOptions, SearchOptions, finetune, search
from powerbert.training.teacher import Distillation, answer_distance, teacher_of, with_answers, without_labels

CLASSES, NUMBER, CHOICES = (find_task(name) for name in ("SST-2", "STS-B", "RACE"))


def test_each_row_carries_the_teachers_own_answer_and_cls_vector_whatever_batch_it_was_asked_in():
    data, tokenizer, teacher = small_data(), tokenizer_for(), tiny("bert").eval()
    encoded = encode_split(data.splits["train"], data.task, tokenizer, 32)
    answered = with_answers(encoded, teacher, tokenizer, vectors=True)
    collate = Collator(tokenizer)
    for row in (0, 7, 47):
        batch = collate([answered[row]])
        taught = batch.pop("teacher")
        with torch.no_grad():  # the oracle: the row alone through the plain model
            logits = teacher(input_ids=batch["input_ids"]).logits
            vector = teacher.bert(input_ids=batch["input_ids"])[0][:, 0]
        torch.testing.assert_close(taught, torch.cat([logits, vector], dim=1), atol=1e-5, rtol=1e-4)
    alone = with_answers(encoded, teacher, tokenizer, vectors=False)
    assert len(alone[0]["teacher"]) == teacher.config.num_labels


def test_distillation_from_itself_pulls_nowhere_and_reads_the_cls_vector():
    student = tiny("bert")
    batch = batch_of([15, 9]) | {"labels": torch.tensor([0, 1])}
    with torch.no_grad():  # what the same weights answer, and their final CLS vectors
        answers = student(**batch).logits, student.bert(**without_labels(batch))[0][:, 0]
    taught = batch | {"teacher": torch.cat(answers, dim=1)}
    whole = Distillation(student, CLASSES, RetrainOptions(distillation=1.0, hidden_weight=1.0))
    assert float(whole(student, taught, student(**batch), 0).detach()) == pytest.approx(0.0, abs=1e-5)
    with torch.no_grad():
        student.bert.encoder.layer[3].output.dense.weight.mul_(2)
    assert float(whole(student, taught, student(**batch), 0).detach()) > 1e-3


def test_the_distance_of_answers_is_kl_or_squared_error():
    logits, answers = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    p, q = answers.softmax(-1), logits.softmax(-1)
    for task in (CLASSES, CHOICES):
        found = answer_distance(logits, answers, task, 1.0)
        assert float(found) == pytest.approx(float((p * (p / q).log()).sum()))
    assert float(answer_distance(logits, answers, NUMBER, 1.0)) == 1.0


def test_a_one_label_head_is_distilled_before_it_says_what_it_is():
    student = tiny("bert", num_labels=1)
    assert student.config.problem_type is None  # the first forward pass with labels sets it
    objective = Distillation(student, NUMBER, RetrainOptions(distillation=1.0))
    taught = batch_of([15, 9]) | {"labels": torch.tensor([1.0, 2.0]), "teacher": torch.full((2, 1), 9.0)}
    outputs = student(**without_labels(taught) | {"labels": taught["labels"]})
    expected = ((outputs.logits - 9.0) ** 2).mean()  # the oracle: squared error
    torch.testing.assert_close(objective(student, taught, outputs, 0), expected)


def wrote(folder: Path, step: str, model: Path) -> Path:
    """A folder that a step wrote from a model."""
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"settings": {"step": step, "model": str(model)}}))
    return folder


def test_the_fine_tuned_model_is_found_through_any_number_of_steps(tmp_path):
    encoder = tmp_path / "encoder"
    encoder.mkdir()
    model = one = wrote(tmp_path / "one", "finetune", encoder)
    assert teacher_of(one, eliminates=False) == one
    for number, step in enumerate(("search", "retrain", "retrain", "retrain")):
        model = wrote(tmp_path / str(number), step, model)
        assert teacher_of(model, eliminates=True) == one


def test_a_model_that_no_step_wrote_is_where_it_came_from(tmp_path):
    (tmp_path / "cross").mkdir()
    assert teacher_of(tmp_path / "cross", eliminates=False) == tmp_path / "cross"
    assert teacher_of(wrote(tmp_path / "two", "search", tmp_path / "cross"), eliminates=True) == tmp_path / "cross"


@pytest.mark.parametrize("record", ["[]", "{", '{"settings": 3}', '{"settings": {"step": null}}'])
def test_a_record_that_says_nothing_is_none(tmp_path, record):
    (tmp_path / "run.json").write_text(record)
    assert teacher_of(tmp_path, eliminates=False) == tmp_path


def test_records_in_a_circle_or_of_a_folder_that_is_gone_are_refused(tmp_path):
    wrote(tmp_path / "a", "retrain", tmp_path / "b")
    wrote(tmp_path / "b", "retrain", tmp_path / "a")
    for folder in (tmp_path / "a", wrote(tmp_path / "c", "search", tmp_path / "gone")):
        with pytest.raises(PowerBertError, match=r"is not there.*--teacher"):
            teacher_of(folder, eliminates=True)


def test_a_model_that_has_changed_since_is_refused(tmp_path):
    """Else a re-training would silently learn from another model than the search began with."""
    data, fast = small_data(), {"epochs": 1, "batch_size": 16}
    one = finetune(pretrained(tmp_path / "encoder"), data, tmp_path / "one", Options(**fast)).folder
    two = search(one, data, tmp_path / "two", SearchOptions(bins=4, **fast)).folder
    assert teacher_of(two, eliminates=True) == one
    model, tokenizer = powerbert.load(one)
    model.classifier.bias.data += 1
    powerbert.save(model, tokenizer, one)
    with pytest.raises(PowerBertError, match=r"has changed since.*--teacher"):
        teacher_of(two, eliminates=True)


def test_answers_that_rows_bring_give_way_to_those_that_are_asked_for():
    data, tokenizer, teacher = small_data(rows=8), tokenizer_for(), tiny("bert").eval()
    encoded = encode_split(data.splits["train"], data.task, tokenizer, 32)
    expected = with_answers(encoded, teacher, tokenizer, vectors=True)
    brought = encoded.add_column(TEACHER, [[0.0, 0.0]] * len(encoded))
    assert with_answers(brought, teacher, tokenizer, vectors=True)[TEACHER][:] == expected[TEACHER][:]


def test_it_is_told_about_how_long_the_teacher_takes(caplog):
    data, tokenizer = small_data(rows=160), tokenizer_for()  # five batches of 32
    encoded = encode_split(data.splits["train"], data.task, tokenizer, 32)
    with caplog.at_level("INFO", "powerbert.training"):
        with_answers(encoded, tiny("bert").eval(), tokenizer, vectors=False)
    assert len(caplog.messages) == 1
    assert re.fullmatch(r"the teacher's answers: about \d+ s left", caplog.messages[0])
