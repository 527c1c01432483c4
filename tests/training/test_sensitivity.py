"""Sensitivity: the table against single forward passes, the choice against every configuration there is.

Oracles: the stock model's KL by hand; exhaustive search over all never-rising configurations of a tiny grid.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import tiny
from runs import small_data
from texts import tokenizer_for

from powerbert.errors import PowerBertError
from powerbert.modeling.apply import apply, retention_of
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.registry import find_task
from powerbert.training.data import encode_data
from powerbert.training.sensitivity import Table, asking, configurations, descend, least_moved, sensitivity

SHARES = (1.0, 0.6, 0.3, 0.1, 0.0)


@pytest.fixture(scope="module")
def measured():
    model, tokenizer = tiny("bert", num_labels=2), tokenizer_for()
    encoded = encode_data(small_data(), model, tokenizer)
    rows = encoded.splits["train"].remove_columns("labels")
    return model, rows, encoded.task, tokenizer, sensitivity(model, rows, encoded.task, tokenizer, shares=SHARES)


def logits_of(model, rows):
    with torch.no_grad():
        return torch.cat([model(input_ids=torch.tensor([row["input_ids"]])).logits for row in rows])


@pytest.mark.parametrize(("j", "share"), [(1, 0.3), (2, 0.0), (3, 0.6), (4, 0.1), (4, 0.0)])
def test_a_cell_is_the_mean_kl_when_encoders_from_j_on_retain_a_share(measured, j, share):
    model, rows, _, _, table = measured
    assert retention_of(model) is None  # given back as it was
    full = logits_of(model, rows).log_softmax(dim=1)
    moved = apply(tiny("bert", num_labels=2), RetentionConfiguration.relative([1.0] * (j - 1) + [share] * (5 - j)))
    own = logits_of(moved, rows).log_softmax(dim=1)
    expected = float((full.exp() * (full - own)).sum(dim=1).mean())
    assert table.moved[j - 1][SHARES.index(share)] == pytest.approx(expected, abs=1e-5)


def test_what_nobody_can_leave_out_is_infinite_and_what_costs_nothing_is_zero(measured):
    *_, table = measured
    assert math.isinf(table.moved[0][-1])
    assert all(math.isfinite(cell) for row in table.moved[1:] for cell in row)
    assert [row[0] for row in table.moved] == [0.0] * 4
    assert max(table.moved[3][:-1]) < 1e-6  # the head reads CLS alone, whatever else the last encoder retains


def test_measuring_says_what_it_cost(measured):
    """In tokens through the whole model: the full answers, and each cell its own share."""
    _, rows, _, _, table = measured
    lengths = [len(row["input_ids"]) for row in rows]
    cells = [[1.0] * 4] + [[1.0] * j + [f] * (4 - j) for j in range(4) for f in SHARES[1:] if j or f]
    expected = sum(math.ceil(round(f * n, 9)) for cell in cells for f in cell for n in lengths) / 4
    assert table.tokens == pytest.approx(expected)


def test_a_regression_is_measured_by_squared_error_and_rows_are_capped():
    model, tokenizer = tiny("bert", num_labels=1), tokenizer_for()
    rows = encode_data(small_data(), tiny("bert", num_labels=2), tokenizer).splits["train"]
    one = RetentionConfiguration.relative((1.0, 0.5, 0.1, 0.1))
    with asking(model, rows, find_task("STS-B"), tokenizer, most=5) as distance:
        assert len(distance.rows) == 5
        chosen, found = distance.rows, distance(one)
    full, moved = logits_of(model, chosen), logits_of(apply(tiny("bert", num_labels=1), one), chosen)
    assert found == pytest.approx(float(((full - moved) ** 2).mean()), rel=1e-3)


# ---- the choice --------------------------------------------------------------------------


def every_configuration(encoders, shares):
    """All never-rising configurations whose first encoder runs."""
    paths = itertools.combinations_with_replacement(range(len(shares)), encoders)
    return [path for path in paths if shares[path[0]]]


def lifted(table):
    """The least table above it whose cells rise with what is eliminated and with how early, by loops."""
    encoders, shares = range(len(table.moved)), range(len(table.shares))
    return [[max(table.moved[i][m] for i in encoders[j:] for m in shares[: k + 1]) for k in shares] for j in encoders]


def sum_of_increments(cells, path):
    return sum(cells[j][g] - cells[j][f] for j, (f, g) in enumerate(zip((0, *path), path, strict=False)))


def spent(path, shares, cost):
    pairs = zip((0, *path), path, strict=False)
    return sum(cost(shares[f], shares[g]) for f, g in pairs if shares[g]) / (len(path) * cost(1.0, 1.0))


@st.composite
def tables(draw):
    encoders = draw(st.integers(1, 4))
    cell = st.integers(0, 60).map(lambda hundredths: hundredths / 100)
    rows = [[0.0, *draw(st.lists(cell, min_size=4, max_size=4))] for _ in range(encoders)]
    rows[0][-1] = math.inf
    return Table(SHARES, tuple(map(tuple, rows)))


COSTS = {"work": lambda f, g: g, "both": lambda f, g: 4 * f + 8 * g, "fixed": lambda f, g: 0.25 + 0.75 * g}


@given(tables(), st.floats(0.1, 1.0), st.sampled_from(list(COSTS)))
def test_no_configuration_within_the_budget_moves_the_answers_less(table, budget, name):
    cost, cells = COSTS[name], lifted(table)
    within = [
        path for path in every_configuration(len(table.moved), SHARES) if spent(path, SHARES, cost) <= budget + 1e-9
    ]
    if not within:
        with pytest.raises(PowerBertError, match="so cheap"):
            least_moved(table, budget, cost)
        return
    found = table.path(least_moved(table, budget, cost))
    assert spent(found, SHARES, cost) <= budget + 1e-9
    least = min(sum_of_increments(cells, path) for path in within)
    # Costs are rounded up to a thousandth of an encoder: the oracle may have what is on the very edge.
    edge = [path for path in within if spent(path, SHARES, cost) <= budget - 2e-3]
    assert least - 1e-9 <= sum_of_increments(cells, found)
    assert not edge or sum_of_increments(cells, found) <= min(sum_of_increments(cells, p) for p in edge) + 1e-9
    assert table.predicted(table.along(found)) == pytest.approx(sum_of_increments(cells, found), abs=1e-9)


@given(tables(), st.floats(0.3, 1.0))
def test_of_equals_the_cheapest_is_chosen(table, budget):
    cost, cells = COSTS["work"], lifted(table)
    found = table.path(least_moved(table, budget))
    least = sum_of_increments(cells, found)
    equals = [
        path for path in every_configuration(len(table.moved), SHARES) if sum_of_increments(cells, path) < least + 1e-9
    ]
    assert spent(found, SHARES, cost) <= min(spent(path, SHARES, cost) for path in equals) + 1e-9


def test_a_larger_budget_never_moves_the_answers_further(measured):
    *_, table = measured
    found = configurations(table, (0.3, 0.5, 0.7, 0.9))
    predicted = [table.predicted(each) for each in found]
    assert predicted == sorted(predicted, reverse=True)
    assert all(
        sum(each.fractions) / 4 <= budget + 1e-9 for each, budget in zip(found, (0.3, 0.5, 0.7, 0.9), strict=True)
    )


def test_a_measured_cost_decides_between_length_and_depth():
    """The same table: where an encoder costs as much for one word as for all, only leaving it out helps."""
    table = Table((1.0, 0.1, 0.0), ((0.0, 0.9, math.inf), (0.0, 0.1, 0.2), (0.0, 0.01, 0.05)))
    assert str(least_moved(table, 0.7)) == "1.0,1.0,0.1"
    assert str(least_moved(table, 0.7, lambda before, after: 1.0)) == "1.0,1.0,0.0"


# ---- descent -----------------------------------------------------------------------------


@given(tables(), st.floats(0.4, 1.0), st.randoms(use_true_random=False))
def test_descent_stays_within_the_budget_and_never_ends_worse(table, budget, random):
    asked = {}

    def distance(retention):
        return asked.setdefault(retention, random.random())

    start = least_moved(table, budget)
    found = descend(table, start, distance, budget, rounds=3, tries=4)
    assert asked[found] == min(asked.values()) <= asked[start]
    assert all(spent(table.path(each), SHARES, COSTS["work"]) <= budget + 1e-9 for each in asked)
    assert len(asked) <= 1 + 3 * 4


def test_descent_finds_what_the_table_cannot_know():
    """The table promises that encoder 2 can do without; whole configurations say that encoder 1 can."""
    table = Table(SHARES, ((0.0, 0.3, 0.4, 0.5, math.inf), (0.0, 0.0, 0.0, 0.1, 0.1)))
    start = least_moved(table, 0.65)
    assert str(start) == "1.0,0.3"

    def distance(retention):
        first, second = retention.fractions
        return abs(first - 0.6) + abs(second - 0.6)

    assert str(descend(table, start, distance, 0.65)) == "0.6,0.6"


def test_a_share_that_was_not_measured_is_refused():
    table = Table((1.0, 0.5), ((0.0, 0.1),))
    with pytest.raises(PowerBertError, match="does not know a share"):
        table.predicted(RetentionConfiguration.relative((0.7,)))


def test_the_real_distance_of_whole_configurations_never_rises(measured):
    model, rows, task, tokenizer, table = measured
    (start,) = configurations(table, (0.5,))
    with asking(model, rows, task, tokenizer) as distance:
        found = descend(table, start, distance, 0.5, rounds=2, tries=3)
        assert distance(found) <= distance(start)
    assert retention_of(model) is None
