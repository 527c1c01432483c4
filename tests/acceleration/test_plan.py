"""The plan: a line for each stage and its time; oracle: the tokens of the data and a model that is left as it was."""

from __future__ import annotations

import copy

import torch
from models import tiny
from runs import small_data
from texts import tokenizer_for

from powerbert.acceleration.plan import plan, tokens_per_second
from powerbert.modeling import ops
from powerbert.training import runner
from powerbert.training.data import encode_data
from powerbert.training.options import AccelerateOptions


def encoded_for(model):
    tokenizer = tokenizer_for()
    return encode_data(small_data(), model, tokenizer), tokenizer


def test_every_stage_has_a_time_and_the_last_line_has_all_of_it():
    model = tiny("bert", num_labels=2)
    encoded, tokenizer = encoded_for(model)
    lines = plan(encoded, model, tokenizer, AccelerateOptions(threads=1), headed=False)
    assert len(lines) == 4
    assert "in all at most about" in lines[-1]
    assert "1 thread " in lines[-1]
    assert not any("fine-tune" in line for line in plan(encoded, model, tokenizer, AccelerateOptions(), headed=True))


def test_long_inputs_are_timed_as_they_are_trained_on(monkeypatch):
    model = tiny("bert", num_labels=2)
    encoded, tokenizer = encoded_for(model)
    dropped, real = [], ops.dropout
    monkeypatch.setattr(ops, "dropout", lambda x, p, training: dropped.append(x.dim()) or real(x, p, training))
    for long, expected in ((1, False), (128, True)):
        monkeypatch.setattr(runner, "LONG", long)
        dropped.clear()
        tokens_per_second(encoded, model, tokenizer, "fp32")
        assert (4 in dropped) == expected  # (batch, heads, length, length)


def test_timing_a_step_changes_nothing_in_the_model():
    model = tiny("bert", num_labels=2)
    encoded, tokenizer = encoded_for(model)
    before = copy.deepcopy(model.state_dict())
    assert tokens_per_second(encoded, model, tokenizer, "fp32") > 0
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
