"""Packed weights give the plain product's answers and step aside where they do not serve."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from models import FAMILIES, batch_of, tiny

import powerbert
from powerbert import RetentionConfiguration
from powerbert.modeling.packing import pack, unpack

RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.1))


@torch.no_grad()
def logits(model, batch):
    return model(**batch).logits


@pytest.mark.parametrize("family", FAMILIES)
def test_packing_changes_no_logit_and_no_key(family):
    model = powerbert.apply(tiny(family), RELATIVE)
    batch = batch_of([13, 7, 20], pad=model.config.pad_token_id or 0)
    plain, keys = logits(model, batch), list(model.state_dict())
    assert pack(model) is model
    torch.testing.assert_close(logits(model, batch), plain, atol=1e-5, rtol=0)
    with torch.inference_mode():
        torch.testing.assert_close(model(**batch).logits, plain, atol=1e-5, rtol=0)
    assert list(model.state_dict()) == keys
    assert torch.equal(logits(unpack(model), batch), plain)


def test_packed_weights_are_really_used():
    model = pack(tiny("bert"))
    logits(model, batch_of([9]))
    assert all(layer.forward.packed is not None for layer in model.modules() if type(layer) is torch.nn.Linear)


def test_changed_weights_are_packed_anew():
    model, batch = pack(tiny("bert")), batch_of([9])
    before = logits(model, batch)
    with torch.no_grad():
        model.bert.encoder.layer[0].intermediate.dense.weight.mul_(2)
    after = logits(model, batch)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, logits(unpack(model), batch), atol=1e-5, rtol=0)


def test_weights_changed_through_data_are_packed_anew():
    """As averaging of weights does it: torch counts no such change."""
    model, batch = pack(tiny("bert")), batch_of([9])
    before = logits(model, batch)
    for parameter in model.parameters():
        parameter.data.mul_(0.5)
    after = logits(model, batch)
    assert not torch.allclose(before, after, atol=1e-2)
    torch.testing.assert_close(after, logits(unpack(model), batch), atol=1e-5, rtol=0)


def test_merging_an_adapter_into_packed_weights_does_not_change_the_answer():
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    targets = LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"], init_lora_weights=False)
    model, batch = pack(get_peft_model(tiny("bert"), targets).eval()), batch_of([9, 5])
    before = logits(model, batch)
    model.merge_adapter()
    torch.testing.assert_close(logits(model, batch), before, atol=1e-4, rtol=0)
    model.unmerge_adapter()
    torch.testing.assert_close(logits(model, batch), before, atol=1e-4, rtol=0)


def test_a_forward_that_somebody_else_set_is_neither_packed_nor_taken_off():
    model, batch, calls = tiny("bert"), batch_of([9]), []
    dense = model.bert.encoder.layer[0].intermediate.dense
    own = type(dense).forward
    dense.forward = lambda rows: (calls.append(1), own(dense, rows))[1]
    logits(pack(model), batch)
    logits(unpack(model), batch)
    assert len(calls) == 2


def test_a_packed_model_can_still_be_trained_copied_and_pickled():
    model, batch = pack(powerbert.apply(tiny("bert"), RELATIVE)), batch_of([9, 5])
    answer = logits(model, batch)
    model(**batch, labels=torch.tensor([0, 1])).loss.backward()
    assert model.bert.encoder.layer[0].intermediate.dense.weight.grad.abs().sum() > 0
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(logits(twin, batch), answer, atol=1e-5, rtol=0)
        layer = twin.bert.encoder.layer[0].intermediate.dense
        assert layer.forward.layer is layer


def test_other_types_run_the_plain_product():
    model = pack(tiny("bert")).to(torch.float64)
    assert logits(model, batch_of([9])).dtype == torch.float64
