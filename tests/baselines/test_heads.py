"""Head-Prune: importance against finite differences of the mask, which heads go, the folder, and that it resumes."""

from __future__ import annotations

import json

import numpy
import pytest
import torch
from model_folders import refusal
from models import batch_of, tiny
from texts import tokenizer_for

import powerbert
from powerbert.baselines import head_prune
from powerbert.baselines.heads import _gradients, head_importance, masked, most_important
from powerbert.engines.open import open_engine
from powerbert.errors import PowerBertError, UnsupportedModelError
from powerbert.export.write import export
from powerbert.modeling.attention_heads import all_heads, retain_heads
from powerbert.tasks.encoding import encode_split
from powerbert.text.batches import Collator
from powerbert.training import RetrainOptions


def test_importance_is_the_slope_of_each_inputs_loss_by_its_heads(tuned):
    """Oracle: a mask that is a little more and a little less than one, for one input alone."""
    data, tokenizer, model, step = tuned.data, tokenizer_for(), tiny("bert", num_labels=2).double(), 1e-5
    rows = encode_split(data.splits["train"], data.task, tokenizer, 32).select(range(6))
    expected = numpy.zeros((4, 4))
    for row in rows:
        batch = Collator(tokenizer)([row])
        for j, head in numpy.ndindex(4, 4):
            losses = []
            for side in (step, -step):
                masks = torch.ones(4, 1, 4, dtype=torch.float64)
                masks[j, 0, head] += side
                with masked(model, masks), torch.no_grad():
                    losses.append(float(model(**batch).loss))
            expected[j, head] += abs(losses[0] - losses[1]) / (2 * step) / len(rows)
    found = head_importance(model.float(), rows, tokenizer)
    numpy.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


def test_the_choices_of_a_question_have_one_mask():
    model, batch = tiny("bert", "ForMultipleChoice"), batch_of([9, 5, 7, 3])
    question = {name: words.reshape(1, 4, -1) for name, words in batch.items()} | {"labels": torch.tensor([2])}
    slopes = _gradients(model, question)
    assert slopes.shape == (4, 1, 4)
    step, found = 1e-2, []
    for side in (step, -step):
        masks = torch.ones(4, 4, 4)
        masks[1, :, 3] += side
        with masked(model, masks), torch.no_grad():
            found.append(float(model(**question).loss))
    assert float(slopes[1, 0, 3]) == pytest.approx((found[0] - found[1]) / (2 * step), abs=1e-4)


def test_a_mask_of_zero_is_a_head_that_is_gone():
    retained, batch = [[0, 2], [1], [0, 1, 2, 3], [3]], batch_of([9, 5])
    model = tiny("bert")
    masks = torch.zeros(4, 2, 4)
    for j, own in enumerate(retained):
        masks[j, :, own] = 1
    with masked(model, masks), torch.no_grad():
        expected = model(**batch).logits
    with torch.no_grad():
        found = retain_heads(model, retained)(**batch).logits
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_the_most_important_heads_are_retained_and_every_encoder_has_one():
    importance = numpy.array([[3.0, 4.0, 0.0], [30.0, 0.0, 40.0], [0.0, 0.0, 0.0]])
    # By norm of the encoder: .6 .8 0, .6 0 .8 and nothing; ties go to the first.
    assert most_important(importance, 3) == [[1], [2], [0]]
    assert most_important(importance, 4) == [[0, 1], [2], [0]]
    assert most_important(importance, 5) == [[0, 1], [0, 2], [0]]
    assert sum(map(len, most_important(importance, 8))) == 8


@pytest.fixture(scope="module")
def pruned(tuned, tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads") / "half"
    return head_prune(tuned.folder, tuned.data, folder, RetrainOptions(**tuned.short), heads=7)


def test_it_leaves_a_folder_with_so_many_heads_and_is_not_done_twice(tuned, pruned):
    model, _ = powerbert.load(pruned.folder)
    found = json.loads((pruned.folder / "heads.json").read_text())
    assert all_heads(model) == tuple(map(len, found["retained"]))
    assert sum(all_heads(model)) == 7
    assert found["retained"] == most_important(numpy.asarray(found["importance"]), 7)
    assert head_prune(tuned.folder, tuned.data, pruned.folder, RetrainOptions(**tuned.short), heads=7).skipped


def test_the_folder_exports_to_a_graph_that_answers_the_same(pruned, tmp_path):
    model, tokenizer = powerbert.load(pruned.folder)
    export(model, tokenizer, tmp_path / "onnx", "onnx")
    batch = batch_of([9, 5, 12])
    answers = [open_engine(folder).run(batch).logits for folder in (pruned.folder, tmp_path / "onnx")]
    numpy.testing.assert_allclose(*answers, atol=1e-4)
    with torch.no_grad():
        numpy.testing.assert_allclose(answers[0], powerbert.load(pruned.folder)[0](**batch).logits, atol=1e-4)


def test_bad_input_is_one_line_and_writes_nothing(tuned, tmp_path):
    def call(folder=tuned.folder, **asked):
        return lambda: head_prune(folder, tuned.data, tmp_path / "a", **asked)

    for wrong in (3, 16, 17, 8.0):
        assert "from 4, one per encoder, to 15: the model has 16" in refusal(PowerBertError, call(heads=wrong))
    assert "run finetune first" in refusal(UnsupportedModelError, call(tuned.encoder, heads=8))
    assert not list(tmp_path.iterdir())
