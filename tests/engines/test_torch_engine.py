"""The torch engine: it gives a model back as it was, and runs multiple choice row by row."""

from __future__ import annotations

import numpy
import pytest
import torch
from models import batch_of, tiny
from texts import tokenizer_for
from torch import nn

import powerbert
from powerbert import RetentionConfiguration
from powerbert.engines.torch_engine import TorchEngine

RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.2))


def state(model):
    """What an engine changes: the mode, the forward of each module, what is eliminated."""
    return [{name: vars(module).get(name) for name in vars(module)} for module in model.modules()]


@pytest.mark.parametrize("made", ["training", "plain", "eliminating", "packed"])
def test_a_model_is_given_back_as_it_was(made):
    model = tiny("bert")
    if made == "training":
        model.train().bert.encoder.eval()
    if made == "eliminating":
        powerbert.apply(model, RELATIVE)
    if made == "packed":
        powerbert.pack(model)
    before, batch = state(model), batch_of([5, 9])
    with TorchEngine(model, tokenizer_for()) as engine:
        engine.run(batch)
        assert not model.training
        nn.init.constant_(model.classifier.bias, 3.0)  # weights are not what is given back
    assert state(model) == before
    assert model.classifier.bias.tolist() == [3.0] * 3


def test_an_error_gives_the_model_back_too():
    model = tiny("bert").train()
    with pytest.raises(RuntimeError), TorchEngine(model, tokenizer_for()):
        raise RuntimeError
    assert model.training
    assert "forward" not in vars(model.classifier)


@pytest.mark.parametrize("eliminates", [False, True])
def test_each_choice_is_a_row_with_one_logit(eliminates):
    model, batch = tiny("bert", "ForMultipleChoice"), batch_of([5, 9, 7, 3])
    if eliminates:
        powerbert.apply(model, RELATIVE)
    with torch.no_grad():  # the oracle: the model itself on one question of four choices
        expected = model(**{name: rows[None] for name, rows in batch.items()}).logits
    with TorchEngine(model, tokenizer_for()) as engine:
        logits = engine.run(batch).logits
    assert logits.shape == (4, 1)
    numpy.testing.assert_allclose(logits[:, 0], expected[0], atol=1e-5)


def test_word_vectors_are_counted_from_the_configuration_and_shared_encoders_as_often_as_they_run():
    model = tiny("albert", inner_group_num=2, num_hidden_layers=2, num_hidden_groups=1)
    assert TorchEngine(model, tokenizer_for()).word_vectors([3, 4]) == 4 * 7
    model = powerbert.apply(tiny("bert"), RELATIVE)
    engine = TorchEngine(model, tokenizer_for())
    assert (engine.retention, engine.encoders) == (RELATIVE, 4)
    assert engine.word_vectors([10, 10]) == 2 * (9 + 6 + 4 + 2)
