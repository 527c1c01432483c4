"""r inside a model, its masses, and the two optimisers."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import batch_of, tiny

from powerbert.modeling.apply import retention_of
from powerbert.retention import RetentionConfiguration
from powerbert.training.retention_parameters import (
    CEILING,
    FALL,
    NAME,
    RetentionAdamW,
    RetentionParameters,
    press,
    released,
)


def parameters(rows: list[list[float]], max_length: int | None = None) -> RetentionParameters:
    """A model's r, set to these rows: one per encoder."""
    r = RetentionParameters(tiny("bert", num_hidden_layers=len(rows)), len(rows[0]), max_length)
    with torch.no_grad():
        r.parameter.copy_(torch.tensor(rows))
    return r


@pytest.mark.parametrize("max_length", [20, None], ids=["absolute", "relative"])
def test_attached_parameters_start_as_the_full_model_and_learn(max_length):
    model = tiny("albert")
    batch = batch_of([20, 9]) | {"labels": torch.tensor([0, 1])}
    with torch.no_grad():
        full = model(**batch).logits
    r = RetentionParameters(model, 8, max_length)
    assert dict(model.named_parameters())[NAME] is r.parameter
    assert r.parameter.shape == (4, max_length or 8)
    torch.testing.assert_close(model(**batch).logits.detach(), full, atol=1e-5, rtol=0)
    model(**batch).loss.backward()
    grad = r.parameter.grad
    assert (grad[:3].abs().sum(dim=1) > 0).all()
    assert grad[3].abs().sum() == 0  # the last encoder is read at CLS alone, which is never scaled
    assert grad[:, 0].abs().sum() == 0 or max_length is None
    r.detach()
    assert retention_of(model) is None
    assert NAME not in dict(model.named_parameters())
    with torch.no_grad():
        assert torch.equal(model(**batch).logits, full)


def test_masses_and_regulariser_are_the_papers():
    rows = [[1.0, 0.5, 0.5, 0.0], [1.0, 0.25, 0.25, 0.0]]
    assert parameters(rows, 4).mass().tolist() == [2.0, 1.5]
    assert parameters(rows).mass().tolist() == [0.5, 0.375]
    assert float(parameters(rows, 4).regulariser().detach()) == 1 * 2.0 + 2 * 1.5


def test_a_configuration_is_read_off_r_by_either_rule():
    r = parameters([[1.0, 0.9, 0.5, 0.2], [1.0, 0.6, 0.4, 0.3]], 4)
    assert r.to_configuration("half") == RetentionConfiguration.absolute((3, 2), 4)
    assert r.to_configuration("mass") == RetentionConfiguration.absolute((3, 3), 4)  # ceil of 2.6 and 2.3
    assert parameters([[1.0, 0.6, 0.4, 0.0]]).to_configuration("half").fractions == (0.5,)


def test_r_counts_as_one_above_one_and_its_gradient_passes():
    r = parameters([[2.0, 1.0, 0.5, 0.0]])
    assert r.degrees().tolist() == [[1.0, 1.0, 0.5, 0.0]]
    assert r.to_json() == [[1.0, 1.0, 0.5, 0.0]]
    r.mass().sum().backward()
    assert (r.parameter.grad == 0.25).all()


def fallen(l1, weight, steps=50):
    """How far r of encoders 1 and 4 falls when only the regulariser pulls."""
    r = RetentionParameters(tiny("bert"), 0, 8)
    optimiser = RetentionAdamW([r.optimiser_group(0.005, l1)])
    for _ in range(steps):
        optimiser.zero_grad()
        loss = (r.parameter * 0.0).sum()
        if l1 is None:
            loss = loss + weight * r.regulariser()
        loss.backward()
        optimiser.step()
    fall = (1 - r.parameter[:, 1:]).mean(dim=1)
    return float(fall[0].detach()), float(fall[3].detach())


def test_decoupled_lambda_and_j_act_as_the_paper_says():
    low, high = fallen(0.1, 0), fallen(0.5, 0)
    assert low[1] == pytest.approx(4 * low[0], rel=1e-3)  # j
    assert high[0] == pytest.approx(5 * low[0], rel=1e-3)  # lambda


def test_the_releases_adam_divides_lambda_and_j_away():
    low, high = fallen(None, 1e-4), fallen(None, 1e-1)
    assert low[1] == pytest.approx(low[0], rel=1e-3)
    assert high[0] == pytest.approx(low[0], rel=1e-2)


@pytest.mark.parametrize(("l1", "top"), [(None, 1.0), (0.0, CEILING), (0.03, CEILING)])
def test_parameters_stay_between_zero_and_the_top_of_their_optimiser(l1, top):
    """Long steps both ways: each bound is reached and held; as r all of it counts within [0, 1]."""
    r = RetentionParameters(tiny("bert"), 3)
    optimiser = RetentionAdamW([r.optimiser_group(5.0, l1)])
    r.parameter.grad = torch.tensor([[1.0, -1.0, 0.0]] * 4)
    optimiser.step()
    assert (r.parameter.min().item(), r.parameter.max().item()) == (0.0, top)
    assert (r.degrees().min().item(), r.degrees().max().item()) == (0.0, 1.0)


def test_the_releases_regulariser_is_in_the_loss():
    model = tiny("bert")
    r = RetentionParameters(model, bins=8)
    loss = released(r, 0.5, model, {}, {"loss": torch.tensor(2.0)}, 0)
    assert float(loss.detach()) == 2.0 + 0.5 * (1 + 2 + 3 + 4)  # every mass is 1


# ---- a budget ----------------------------------------------------------------------------


def work_by_hand(rows: list[list[float]], max_length: int | None) -> float:
    """Mean of the never-rising masses, as shares of the length; CLS, the first of N, always counts."""
    least, total = 1.0, 0.0
    for row in rows:
        held = [min(max(value, 0.0), 1.0) for value in row]
        own = sum(held) / len(held) if max_length is None else (1 + sum(held[1:])) / max_length
        least = min(least, own)
        total += least
    return total / len(rows)


cells = st.floats(0.0, CEILING, width=32)


@given(st.lists(st.lists(cells, min_size=5, max_size=5), min_size=1, max_size=4), st.floats(0.25, 1), st.booleans())
def test_pressing_subtracts_the_least_multiple_of_j_that_keeps_the_budget(rows, most, absolute):
    """Oracle: the work by hand; a little less pressure would be too little, and every rank bears nu * j."""
    max_length = 5 if absolute else None
    parameter = torch.tensor(rows)
    press(parameter, most, max_length)
    pressed = parameter.tolist()
    assert work_by_hand(pressed, max_length) <= most + 1e-5
    borne = [
        (a - b) / j for j, pair in enumerate(zip(rows, pressed, strict=True), 1) for a, b in zip(*pair, strict=True)
    ]
    nu = max(borne)
    for j, (before, after) in enumerate(zip(rows, pressed, strict=True), 1):
        assert after == pytest.approx([max(value - nu * j, 0.0) for value in before], abs=1e-5)
    if nu > 1e-5:
        less = [[max(value - (nu - 1e-5) * j, 0.0) for value in row] for j, row in enumerate(rows, 1)]
        assert work_by_hand(less, max_length) > most - 1e-5
    else:
        assert work_by_hand(rows, max_length) <= most + 1e-4


def go_on(r: RetentionParameters, optimiser: RetentionAdamW, pull: float, first: int, last: int = 40) -> list[float]:
    """Steps of a search of 40 whose rate falls linearly; a task pulls one way and the other. The work after each."""
    course = []
    for step in range(first, last):
        optimiser.param_groups[0]["lr"] = 0.1 * (1 - step / 40)
        r.parameter.grad = torch.full_like(r.parameter, -pull if step % 2 else pull)
        optimiser.step()
        course.append(float(r.mass().cummin(dim=0).values.mean().detach()))
    return course


def test_the_work_falls_to_the_budget_as_r_travels_and_stays():
    """Oracle: the sum of the rates so far, as a share of the part of the whole on which the work falls."""
    r = RetentionParameters(tiny("bert"), 8)
    course = go_on(r, RetentionAdamW([r.optimiser_group(0.1, 0.03, 0.4, steps=40)]), 0.0, 0)
    rates = [0.1 * (1 - step / 40) for step in range(40)]
    for step, spent in enumerate(course, 1):
        fallen = min(1.0, sum(rates[:step]) / (FALL * 0.1 * 40 / 2))
        assert spent == pytest.approx(1 - 0.6 * fallen, abs=1e-3)
    assert course[-1] == course[-5] == pytest.approx(0.4, abs=1e-3)


def test_a_search_with_a_budget_resumes_from_the_state_of_its_optimiser():
    r, resumed = (RetentionParameters(tiny("bert"), 8) for _ in range(2))
    optimiser, other = (RetentionAdamW([each.optimiser_group(0.1, 0.03, 0.5, steps=40)]) for each in (r, resumed))
    go_on(r, optimiser, 1e-3, 0, 13)
    other.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    with torch.no_grad():
        resumed.parameter.copy_(r.parameter)
    assert go_on(r, optimiser, 1e-3, 13) == go_on(resumed, other, 1e-3, 13)
    assert torch.equal(resumed.parameter, r.parameter)


@given(st.lists(st.lists(cells, min_size=6, max_size=6), min_size=1, max_size=4), st.floats(0.2, 1))
def test_with_a_budget_another_degree_takes_the_place_of_the_half(rows, budget):
    """Oracle: rank after rank goes, the least degree first, of equal ones the last, until the budget is kept."""
    r = parameters(rows)
    found = r.to_configuration("half", budget)
    own = [[float(value) for value in row] for row in r.parameter.tolist()]
    falling = sorted((value, -rank, -j) for j, row in enumerate(own) for rank, value in enumerate(row))
    kept = [[1.0] * 6 for _ in own]
    for _, rank, j in falling:
        if work_by_hand(kept, None) <= budget + 1e-6:
            break
        kept[-j][-rank] = 0.0
    least, expected = 1.0, []
    for row in kept:
        least = min(least, max(sum(row) / 6, 1e-4))
        expected.append(least)
    assert found.fractions == pytest.approx(expected, abs=2e-4)
