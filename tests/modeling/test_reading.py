"""The head on word-vectors of the caller's own. Oracle: the model's own answer, and BERT's modules."""

from __future__ import annotations

import pytest
import torch
from models import FAMILIES, batch_of, tiny

import powerbert
from powerbert import RetentionConfiguration
from powerbert.modeling.apply import attached, base_of
from powerbert.modeling.forward import run
from powerbert.modeling.reading import read_head

LENGTHS = [13, 7, 20, 2]


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_the_final_cls_gives_the_models_own_answer(family):
    model = tiny(family)
    batch = batch_of(LENGTHS, pad=model.config.pad_token_id or 0)
    expected = model(**batch).logits
    full = attached(powerbert.apply(model, RetentionConfiguration.full(4)))
    _, cls, _ = run(base_of(model), full, dict(batch))
    powerbert.remove(model)
    torch.testing.assert_close(read_head(model, cls[:, 0]), expected, atol=1e-5, rtol=0)
    assert torch.equal(model(**batch).logits, expected)  # the model is as it was


@torch.no_grad()
def test_any_position_is_read_as_if_it_were_cls():
    model = tiny("bert")
    states = model.bert(**batch_of([9])).last_hidden_state
    expected = [model.classifier(model.bert.pooler(states[:, place:]))[0] for place in range(9)]
    torch.testing.assert_close(read_head(model, states[0]), torch.stack(expected), atol=1e-6, rtol=0)


def test_elimination_stays_applied_and_a_failure_leaves_the_model_as_it_was():
    model, batch = powerbert.apply(tiny("bert"), RetentionConfiguration.relative((0.5,) * 4)), batch_of([9])
    with torch.no_grad():
        before = model(**batch).logits
        read_head(model, torch.zeros(2, 24))
        with pytest.raises(RuntimeError):
            read_head(model, torch.zeros(2, 23))
        assert torch.equal(model(**batch).logits, before)
