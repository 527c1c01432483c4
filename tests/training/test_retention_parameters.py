"""r inside a model, its masses, and the two optimisers."""

from __future__ import annotations

import pytest
import torch
from models import batch_of, tiny

from powerbert.modeling.apply import retention_of
from powerbert.training.retention_parameters import (
    NAME,
    RetentionAdamW,
    attach,
    detach,
    masses,
    regulariser,
)


@pytest.mark.parametrize(("size", "max_length"), [(20, 20), (8, None)], ids=["absolute", "relative"])
def test_attached_parameters_start_as_the_untouched_model_and_learn(size, max_length):
    model = tiny("albert")
    batch = batch_of([20, 9]) | {"labels": torch.tensor([0, 1])}
    with torch.no_grad():
        untouched = model(**batch).logits
    r = attach(model, 4, size, max_length)
    assert dict(model.named_parameters())[NAME] is r
    torch.testing.assert_close(model(**batch).logits.detach(), untouched, atol=1e-5, rtol=0)
    model(**batch).loss.backward()
    assert (r.grad[:3].abs().sum(dim=1) > 0).all()
    assert r.grad[3].abs().sum() == 0  # the last encoder is read at CLS alone, which is never scaled
    assert r.grad[:, 0].abs().sum() == 0 or max_length is None
    detach(model)
    assert retention_of(model) is None
    with torch.no_grad():
        assert torch.equal(model(**batch).logits, untouched)


def test_masses_and_regulariser_are_the_papers():
    r = torch.tensor([[1.0, 0.5, 0.5, 0.0], [1.0, 0.25, 0.25, 0.0]])
    assert masses(r, 4).tolist() == [2.0, 1.5]
    assert masses(r, None).tolist() == [0.5, 0.375]
    assert float(regulariser(r, 4)) == 1 * 2.0 + 2 * 1.5


def fallen(l1, weight, steps=50):
    """How far r of encoders 1 and 4 falls when only the regulariser pulls."""
    r = torch.nn.Parameter(torch.ones(4, 8))
    optimiser = RetentionAdamW([{"params": [r], "lr": 0.005, "weight_decay": 0.0, "l1": l1}])
    for _ in range(steps):
        optimiser.zero_grad()
        loss = (r * 0.0).sum()
        if l1 is None:
            loss = loss + weight * regulariser(r, 8)
        loss.backward()
        optimiser.step()
    fall = (1 - r[:, 1:]).mean(dim=1)
    return float(fall[0].detach()), float(fall[3].detach())


def test_decoupled_lambda_and_j_act_as_the_paper_says():
    low, high = fallen(0.1, 0), fallen(0.5, 0)
    assert low[1] == pytest.approx(4 * low[0], rel=1e-3)  # j
    assert high[0] == pytest.approx(5 * low[0], rel=1e-3)  # lambda


def test_the_releases_adam_divides_lambda_and_j_away():
    low, high = fallen(None, 1e-4), fallen(None, 1e-1)
    assert low[1] == pytest.approx(low[0], rel=1e-3)
    assert high[0] == pytest.approx(low[0], rel=1e-2)


def test_parameters_stay_in_the_unit_interval():
    r = torch.nn.Parameter(torch.ones(2, 3))
    optimiser = RetentionAdamW([{"params": [r], "lr": 5.0, "weight_decay": 0.0, "l1": 1.0}])
    r.grad = torch.tensor([[1.0, -1.0, 0.0]] * 2)
    optimiser.step()
    assert r.min() >= 0
    assert r.max() <= 1
