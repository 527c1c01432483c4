"""Every tensor of a forward pass is made on the model's own device. Oracle: the same model on the CPU."""

from __future__ import annotations

import copy

import devices
import pytest
import torch
from models import FAMILIES, batch_of, tiny

import powerbert
from powerbert import RetentionConfiguration
from powerbert.modeling.apply import search_with, unpad
from powerbert.modeling.retain import SoftExtract

RELATIVE = RetentionConfiguration.relative((0.9, 0.6, 0.4, 0.1))
LENGTHS = [13, 7, 20, 7, 2]


def both(model, batch):
    """The answers on the CPU and on the fake device."""
    with torch.no_grad():
        expected = model(**batch).logits
    return expected, devices.answer(devices.moved(copy.deepcopy(model)), batch)


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "padded"])
@pytest.mark.parametrize("strategy", ["attn-ws", "head-ws", "rand-ws"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_classifier_runs_on_any_device(family, strategy, packed):
    model = unpad(powerbert.apply(tiny(family), RELATIVE, strategy), packed)
    for side in ("right", "left"):
        expected, answer = both(model, batch_of(LENGTHS, pad=model.config.pad_token_id or 0, side=side))
        torch.testing.assert_close(answer, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("head", ["ForTokenClassification", "ForSequenceClassification"])
def test_restoring_the_reference_and_absolute_counts_run_on_any_device(head):
    model = tiny("bert", head)
    for retention in (RELATIVE, RetentionConfiguration.absolute((12, 8, 5, 3), 20)):
        for reference in (False, True):
            powerbert.apply(model, retention, _reference=reference)
            expected, answer = both(model, batch_of(LENGTHS))
            torch.testing.assert_close(answer, expected, atol=1e-5, rtol=0)


def test_soft_extract_runs_on_any_device():
    model = powerbert.apply(tiny("albert"), RELATIVE)
    search_with(model, SoftExtract(lambda j, rows, ranks, lengths: rows * (ranks < lengths[:, None] // 2)[..., None]))
    expected, answer = both(model, batch_of(LENGTHS))
    torch.testing.assert_close(answer, expected, atol=1e-5, rtol=0)


def test_the_fake_device_refuses_a_tensor_of_the_cpu():
    rows = devices.Elsewhere(torch.ones(3))
    with devices.FakeDevice(), pytest.raises(RuntimeError, match="one device"):
        rows + torch.arange(3)
    with devices.FakeDevice():
        assert (rows + torch.arange(3, device=rows.device)).inner.tolist() == [1, 2, 3]
